using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>
/// Many threads, two queues on one store, all ways to ask for the disk, at random: what a call returned for, and what a consumer
/// of durable messages sees, is on the disk at that moment, and no call waits for ever.
/// </summary>
[Trait("Category", "Slow")]
public sealed class AcknowledgedTests
{
    private const int Segment = 64 * 1024;
    private static readonly TimeSpan s_length = TimeSpan.FromSeconds(1);

    [Theory]
    [InlineData(ProducerMode.Shared, true)]
    [InlineData(ProducerMode.Shared, false)]
    [InlineData(ProducerMode.Exclusive, true)]
    public void Acknowledged_ManyWaysAtOnce_IsOnDisk(ProducerMode mode, bool writesAhead)
    {
        int seed = Environment.TickCount;
        using TempStore store = new();
        var disk = new FaultyDisk();
        var image = new DurableImage(disk, store, Segment);
        using MappedFileQueue first = Open(store, mode, writesAhead);
        using MappedFileQueue second = Open(store, mode, writesAhead);
        using MappedFileConsumer consumer = second.OpenConsumer("durable", new ConsumerOptions { DurableOnly = true });
        long began = Stopwatch.GetTimestamp();
        bool isOver = false;
        int acknowledged = 0;
        int read = 0;
        List<BackgroundCall> calls = [];
        for (int i = 0; i < (mode == ProducerMode.Shared ? 5 : 1); i++)
        {
            var worker = new Worker(i % 2 == 0 ? first : second, image, new Random(seed + i));
            calls.Add(BackgroundCall.Start(() =>
            {
                while (Stopwatch.GetElapsedTime(began) < s_length || !HasSeenAll())
                    Interlocked.Add(ref acknowledged, worker.Step());
            }));
        }

        BackgroundCall reading = BackgroundCall.Start(() =>
        {
            while (!Volatile.Read(ref isOver))
            {
                if (!consumer.TryConsume(out ReadOnlySpan<byte> message, TimeSpan.FromMilliseconds(20)))
                    continue;
                image.Check(consumer.MessageOffset, message);
                consumer.Advance();
                read++;
            }
        });

        try
        {
            foreach (BackgroundCall call in calls)
                call.Join();
        }
        catch (Exception error)
        {
            Assert.Fail($"seed={seed}: {error}");
        }
        finally
        {
            Volatile.Write(ref isOver, true);
        }

        Exception? wrong = reading.JoinSilently();
        Assert.True(wrong is null, $"seed={seed}: {wrong}");
        Assert.True(acknowledged > 0 && read > 0 && image.Syncs > 0, $"seed={seed}, {acknowledged}, {read}");

        // On a busy machine a thread has not begun after a second. One that failed is joined after a minute.
        bool HasSeenAll() => (Volatile.Read(ref acknowledged) > 0 && Volatile.Read(ref read) > 0 && image.Syncs > 0)
            || Stopwatch.GetElapsedTime(began) > TimeSpan.FromMinutes(1);
    }

    private static MappedFileQueue Open(TempStore store, ProducerMode mode, bool writesAhead) => new(new MappedFileQueueOptions
    {
        StorePath = store.StorePath,
        SegmentSize = Segment,
        ProducerMode = mode,
        Durability = DurabilityLevel.Group,
        FlushInterval = TimeSpan.FromMilliseconds(5),
        PreallocateByWriting = writesAhead,
    });

    /// <summary>One thread's calls.</summary>
    private sealed class Worker(MappedFileQueue queue, DurableImage image, Random random)
    {
        private static readonly ProduceOptions s_later = new() { Durability = DurabilityLevel.PageCache };

        private readonly MappedFileProducer _producer = queue.Producer;
        private readonly List<(long Offset, byte[] Message)> _unchecked = [];

        /// <summary>Does something, and returns how many messages were acknowledged.</summary>
        public int Step()
        {
            try
            {
                Do(random.Next(7));
            }
            catch (Exception error) when (error is TimeoutException or OperationCanceledException)
            {
                // Appended, its durability not known.
                return 0;
            }

            foreach ((long offset, byte[] message) in _unchecked)
                image.Check(offset, message);
            int count = _unchecked.Count;
            _unchecked.Clear();
            return count;
        }

        private void Do(int what)
        {
            switch (what)
            {
                case 0:
                    Add(message => _producer.Produce(message));
                    break;
                case 1:
                    ProduceAsync();
                    break;
                case 2:
                    Add(message => _producer.Produce(message, s_later), 1 + random.Next(20));
                    queue.Flush();
                    break;
                case 3:
                    Add(message => _producer.Produce(message, s_later), 1 + random.Next(20));
                    _producer.FlushAsync(_unchecked[^1].Offset + 1).AsTask().GetAwaiter().GetResult();
                    break;
                case 4:
                    Claim();
                    break;
                case 5:
                    Batch();
                    break;
                default:
                    using (var source = new CancellationTokenSource(random.Next(3)))
                    {
                        var options = new ProduceOptions
                        {
                            CancellationToken = source.Token,
                            Timeout = TimeSpan.FromMilliseconds(random.Next(3)),
                        };
                        Add(message => _producer.Produce(message, options));
                    }

                    break;
            }
        }

        private void ProduceAsync()
        {
            List<(Task<long> Call, byte[] Message)> calls = [];
            using var source = new CancellationTokenSource();
            for (int i = random.Next(10); i >= 0; i--)
            {
                byte[] message = Make();
                calls.Add((_producer.ProduceAsync(message, source.Token).AsTask(), message));
            }

            if (random.Next(4) == 0)
                source.Cancel();
            foreach ((Task<long> call, byte[] message) in calls)
            {
                try
                {
                    _unchecked.Add((call.GetAwaiter().GetResult(), message));
                }
                catch (OperationCanceledException)
                {
                    // Appended, its durability not known.
                }
            }
        }

        private void Claim()
        {
            byte[] message = Make();
            using MessageClaim claim = _producer.DangerousClaim(message.Length + 64);
            message.CopyTo(claim.Span);
            Thread.SpinWait(random.Next(2000));
            if (random.Next(3) != 0)
                _unchecked.Add((claim.Publish(message.Length), message));
        }

        private void Batch()
        {
            ReadOnlyMemory<byte>[] messages = [Make(), Make(), Make()];
            long offset = _producer.ProduceBatch(messages);
            foreach (ReadOnlyMemory<byte> message in messages)
            {
                _unchecked.Add((offset, message.ToArray()));
                offset += FrameHeader.FrameLength(message.Length);
            }
        }

        private void Add(Func<byte[], long> produce, int count = 1)
        {
            for (int i = 0; i < count; i++)
            {
                byte[] message = Make();
                _unchecked.Add((produce(message), message));
            }
        }

        private byte[] Make()
        {
            byte[] message = new byte[1 + random.Next(random.Next(10) == 0 ? 20_000 : 300)];
            random.NextBytes(message);
            return message;
        }
    }
}
