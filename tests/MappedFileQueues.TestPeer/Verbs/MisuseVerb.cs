using System.Buffers.Binary;
using System.Diagnostics;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `misuse producers MODE STORE` and `misuse consumers - STORE`: every pair of members of one object is called by two threads at
/// once, for a moment each. What goes wrong there may kill the process, so it has one of its own. Prints `held`.
/// </summary>
internal static class MisuseVerb
{
    private const int SegmentLength = 64 * 1024;

    private static readonly TimeSpan s_moment = TimeSpan.FromMilliseconds(20);

    public static int Run(string[] arguments)
    {
        if (arguments[0] == "producers")
            Producers(Enum.Parse<ProducerMode>(arguments[1]), arguments[2]);
        else
            Consumers(arguments[2]);
        Console.WriteLine("held");
        return 0;
    }

    /// <summary>What was acknowledged is read afterwards, once, and nothing else.</summary>
    private static void Producers(ProducerMode mode, string path)
    {
        (string Name, Func<MappedFileProducer, IdSource, int> Call)[] members =
        [
            ("Produce", (producer, ids) => Acknowledged(producer.Produce(ids.Next()), 1)),
            ("Produce with options", (producer, ids) => Acknowledged(producer.Produce(ids.Next(), default(ProduceOptions)), 1)),
            ("Produce in place", (producer, ids) => Acknowledged(
                producer.Produce(IdSource.Length, ids.Next(), static (place, id) => id.CopyTo(place)), 1)),
            ("TryProduce", (producer, ids) => producer.TryProduce(ids.Next()) ? 1 : 0),
            ("ProduceBatch", (producer, ids) => Acknowledged(producer.ProduceBatch([ids.Next(), ids.Next(), ids.Next()]), 3)),
            ("ProduceAsync", (producer, ids) => Acknowledged(producer.ProduceAsync(ids.Next()).AsTask().Result, 1)),
            ("DangerousClaim", Claim),
            ("FlushAsync", (producer, _) => Acknowledged(producer.FlushAsync(0).AsTask().Result, 0)),
        ];
        for (int first = 0; first < members.Length; first++)
        {
            for (int second = first; second < members.Length; second++)
            {
                string store = Path.Combine(path, $"{first}-{second}");
                var ids = new IdSource[] { new(1), new(2) };
                using (var queue = Open(store, mode))
                {
                    MappedFileProducer producer = queue.Producer;
                    Together(
                        () => ids[0].Count(members[first].Call(producer, ids[0])),
                        () => ids[1].Count(members[second].Call(producer, ids[1])),
                        (thread, refused) => ids[thread].Refuse(),
                        s_moment,
                        mode == ProducerMode.Exclusive);
                }

                ExpectAll(store, ids, $"{members[first].Name} beside {members[second].Name}");
            }
        }
    }

    private static int Claim(MappedFileProducer producer, IdSource ids)
    {
        using MessageClaim claim = producer.DangerousClaim(IdSource.Length);
        ids.Next().CopyTo(claim.Span);
        claim.Publish(IdSource.Length);
        return 1;
    }

    private static int Acknowledged(long offset, int count) => offset >= 0 ? count : 0;

    private static void ExpectAll(string store, IdSource[] ids, string pair)
    {
        using var queue = Open(store, ProducerMode.Shared);
        var seen = new HashSet<(byte, long)>();
        while (queue.Consumer.TryConsume(out ReadOnlySpan<byte> message))
        {
            RaceVerb.Expect(IdSource.TryRead(message, out byte thread, out long id), $"a whole message: {pair}");
            RaceVerb.Expect(ids[thread - 1].Acknowledged.Contains(id), $"no message that was refused: {pair}");
            RaceVerb.Expect(seen.Add((thread, id)), $"each message once: {pair}");
            queue.Consumer.Commit();
        }

        long acknowledged = ids[0].Acknowledged.Count + ids[1].Acknowledged.Count;
        RaceVerb.Expect(seen.Count == acknowledged, $"{pair}: {acknowledged} acknowledged, {seen.Count} read");
    }

    /// <summary>Messages are whole wherever a member gives them, and two batches never share one.</summary>
    private static void Consumers(string path)
    {
        (string Name, Action<MappedFileConsumer> Call)[] members =
        [
            ("Consume", consumer => ExpectWhole(consumer.Consume())),
            ("TryConsume", consumer => _ = consumer.TryConsume(out ReadOnlySpan<byte> message) && ExpectWhole(message)),
            ("ConsumeBatch", Batch),
            ("ConsumeAsync", consumer => ExpectWhole(consumer.ConsumeAsync().AsTask().Result.Span)),
            ("WaitToConsumeAsync", consumer => _ = consumer.WaitToConsumeAsync().AsTask().Result),
            ("Advance", consumer => consumer.Advance()),
            ("Commit", consumer => consumer.Commit()),
            ("Commit(offset)", consumer => consumer.Commit(0)),
            ("Rewind", consumer => consumer.Rewind()),
            ("SeekToStart", consumer => consumer.SeekToStart()),
        ];
        using (var queue = Open(path, ProducerMode.Shared))
        {
            var ids = new IdSource(1);
            // Nearly ten segments.
            for (int i = 0; i < 20_000; i++)
                queue.Producer.Produce(ids.Next());
        }

        for (int first = 0; first < members.Length; first++)
        {
            for (int second = first; second < members.Length; second++)
            {
                // Several short moments: each has an end, which is where most went wrong.
                for (int round = 0; round < 4; round++)
                {
                    using var queue = Open(path, ProducerMode.Shared);
                    using MappedFileConsumer consumer = queue.OpenConsumer($"{first}-{second}-{round}");
                    Together(
                        () => Go(consumer, members[first].Call),
                        () => Go(consumer, members[second].Call),
                        (_, _) => { },
                        s_moment / 4,
                        mayRefuse: true,
                        atEnd: consumer.Dispose);
                }
            }
        }
    }

    /// <summary>Before the end of the log a member would wait; going back there is a member too.</summary>
    private static void Go(MappedFileConsumer consumer, Action<MappedFileConsumer> call)
    {
        if (consumer.Offset > 8 * SegmentLength)
            consumer.SeekToStart();
        call(consumer);
    }

    private static void Batch(MappedFileConsumer consumer)
    {
        foreach (ReadOnlySpan<byte> message in consumer.ConsumeBatch(100))
            ExpectWhole(message);
    }

    /// <summary>Looks again and again: the memory must stay while the other thread reads on and commits.</summary>
    private static bool ExpectWhole(ReadOnlySpan<byte> message)
    {
        for (int i = 0; i < 20; i++)
            RaceVerb.Expect(IdSource.TryRead(message, out _, out _), "a whole message");
        return true;
    }

    /// <summary>Two threads, each with its call again and again; a refusal is the one error that is allowed.</summary>
    private static void Together(
        Action first, Action second, Action<int, Exception> refused, TimeSpan moment, bool mayRefuse, Action? atEnd = null)
    {
        using var start = new Barrier(2);
        Exception? failure = null;
        bool isOver = false;
        void Run(int thread, Action call)
        {
            start.SignalAndWait();
            long began = Stopwatch.GetTimestamp();
            while (Stopwatch.GetElapsedTime(began) < moment && Volatile.Read(ref failure) is null)
            {
                try
                {
                    call();
                }
                catch (Exception error) when (Unwrapped(error) is InvalidOperationException and not ObjectDisposedException)
                {
                    if (!mayRefuse)
                        Volatile.Write(ref failure, error);
                    refused(thread, error);
                }
                catch (Exception error) when (Volatile.Read(ref isOver) && Unwrapped(error) is ObjectDisposedException)
                {
                    return;
                }
                catch (Exception error)
                {
                    Volatile.Write(ref failure, error);
                }
            }
        }

        var threads = new Thread[] { new(() => Run(0, first)), new(() => Run(1, second)) };
        foreach (Thread thread in threads)
            thread.Start();
        if (atEnd is not null)
        {
            // Not for synchronisation: the threads are to run beside each other for so long.
            Thread.Sleep(moment / 2);
            Volatile.Write(ref isOver, true);
            atEnd();
        }

        foreach (Thread thread in threads)
            thread.Join();
        if (failure is not null)
            throw new InvalidOperationException("Two threads at once.", failure);
    }

    private static Exception Unwrapped(Exception error) => (error as AggregateException)?.InnerException ?? error;

    private static MappedFileQueue Open(string path, ProducerMode mode) => new(new MappedFileQueueOptions
    {
        StorePath = path,
        SegmentSize = SegmentLength,
        ProducerMode = mode,
        Durability = DurabilityLevel.PageCache,
    });

    /// <summary>Numbered messages of one thread, and which of them were acknowledged.</summary>
    private sealed class IdSource(byte thread)
    {
        public const int Length = 24;

        private long _next;
        private long _taken;

        public HashSet<long> Acknowledged { get; } = [];

        public byte[] Next()
        {
            byte[] message = new byte[Length];
            message[0] = thread;
            BinaryPrimitives.WriteInt64LittleEndian(message.AsSpan(8), _next);
            BinaryPrimitives.WriteInt64LittleEndian(message.AsSpan(16), ~_next);
            _next++;
            return message;
        }

        /// <summary>All that were taken for this call were acknowledged.</summary>
        public void Count(int count)
        {
            RaceVerb.Expect(count == 0 || count == _next - _taken, "all of a call or none");
            for (; _taken < _next; _taken++)
                Acknowledged.Add(_taken);
        }

        /// <summary>None that was taken for this call may ever be read.</summary>
        public void Refuse() => _taken = _next;

        public static bool TryRead(ReadOnlySpan<byte> message, out byte thread, out long id)
        {
            thread = 0;
            id = 0;
            if (message.Length != Length)
                return false;
            thread = message[0];
            id = BinaryPrimitives.ReadInt64LittleEndian(message[8..]);
            return BinaryPrimitives.ReadInt64LittleEndian(message[16..]) == ~id;
        }
    }
}
