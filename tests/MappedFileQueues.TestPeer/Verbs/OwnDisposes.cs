using System.Buffers;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>User code that runs under a claim, disposes its own queue, and continues writing.</summary>
internal static class OwnDisposes
{
    private const int Length = 20_000;

    /// <summary>In the callback that fills a message in place.</summary>
    public static void InFill(string path, ProducerMode mode)
    {
        foreach (bool wholeQueue in (bool[])[true, false])
        {
            MappedFileQueue queue = RaceVerb.Open(path, mode);
            IDisposable disposed = wholeQueue ? queue : queue.Producer;
            ExpectFenced(() => queue.Producer.Produce(Length, disposed, (span, ending) =>
            {
                ending.Dispose();
                AppendNext(path, mode, wholeQueue ? null : queue);
                span.Fill(0x77);
            }));
            queue.Dispose();
        }

        ExpectOnlyNext(path, count: 2);
    }

    /// <summary>In the memory of a batch's message; the first message is copied last.</summary>
    public static void InBatch(string path, ProducerMode mode)
    {
        MappedFileQueue queue = RaceVerb.Open(path, mode);
        byte[] bytes = new byte[Length];
        bytes.AsSpan().Fill(0x77);
        using var memory = new CallingMemory(bytes, () =>
        {
            queue.Dispose();
            AppendNext(path, mode, null);
        });
        ExpectFenced(() => queue.Producer.ProduceBatch([bytes, memory.Memory]));
        ExpectOnlyNext(path, count: 1);
    }

    /// <summary>What others append once the queue has let its locks go must stay as it is.</summary>
    private static void AppendNext(string path, ProducerMode mode, MappedFileQueue? open)
    {
        using MappedFileQueue? opened = open is null ? RaceVerb.Open(path, mode) : null;
        using MappedFileProducer producer = (opened ?? open!).OpenProducer();
        producer.Produce([1, 2, 3]);
    }

    private static void ExpectFenced(Action call)
    {
        try
        {
            call();
        }
        catch (ProducerFencedException)
        {
            return;
        }

        RaceVerb.Expect(false, nameof(ProducerFencedException));
    }

    private static void ExpectOnlyNext(string path, int count)
    {
        using MappedFileQueue queue = RaceVerb.Open(path);
        MappedFileConsumer consumer = queue.OpenConsumer("all");
        for (int i = 0; i < count; i++)
        {
            RaceVerb.Expect(consumer.TryConsume(out ReadOnlySpan<byte> message) && message is [1, 2, 3], "the next message");
            consumer.Advance();
        }

        RaceVerb.Expect(!consumer.TryConsume(out _), "nothing else");
        queue.Producer.Produce([4]);
        RaceVerb.Expect(consumer.TryConsume(out ReadOnlySpan<byte> last) && last is [4], "a log that takes more");
    }

    /// <summary>Runs a call the first time that it is looked at.</summary>
    private sealed class CallingMemory(byte[] bytes, Action call) : MemoryManager<byte>
    {
        private bool _called;

        public override Memory<byte> Memory => CreateMemory(bytes.Length);

        public override Span<byte> GetSpan()
        {
            if (!_called)
            {
                _called = true;
                call();
            }

            return bytes;
        }

        public override MemoryHandle Pin(int elementIndex = 0) => throw new NotSupportedException();

        public override void Unpin()
        {
        }

        protected override void Dispose(bool disposing)
        {
        }
    }
}
