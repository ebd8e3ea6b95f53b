namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>Spans that are out while the place of their reader is moved.</summary>
internal static class SpanMoves
{
    private const int Length = 40_000;

    /// <summary>What moves a consumer without reading; the last offset is that of the second message.</summary>
    private static readonly Action<MappedFileConsumer, long>[] s_moves =
    [
        (consumer, _) => consumer.Rewind(),
        (consumer, _) => consumer.SeekToEnd(),
        (consumer, _) => consumer.SeekToStart(),
        (consumer, second) => consumer.AdjustOffset(second),
        (consumer, _) =>
        {
            consumer.Rewind();
            consumer.SeekToEnd();
            consumer.WaitToConsumeAsync().AsTask();
        },
    ];

    /// <summary>Consumers and readers: the span is whole until the next read, and its mapping goes with that.</summary>
    public static void SpanAfterMove(string path)
    {
        long second = Fill(path);
        foreach (Action<MappedFileConsumer, long> move in s_moves)
        {
            using MappedFileQueue queue = RaceVerb.Open(path);
            MappedFileConsumer consumer = queue.OpenConsumer(Guid.NewGuid().ToString("N"));
            ReadOnlySpan<byte> span = consumer.Consume();
            move(consumer, second);
            RaceVerb.Expect(IsWhole(span, 1), "the span is whole after the move");
        }

        using MappedFileReader reader = MappedFileReader.Open(path);
        RaceVerb.Expect(reader.TryRead(out ReadOnlySpan<byte> read), "a message");
        reader.Seek(QueueStart.Latest);
        RaceVerb.Expect(IsWhole(read, 1), "the reader's span is whole after the move");
        reader.Seek(QueueStart.FromOffset(second));
        RaceVerb.Expect(IsWhole(read, 1), "the reader's span is whole after the second move");
        RaceVerb.Expect(reader.TryRead(out read) && IsWhole(read, 2), "the second message");
        RaceVerb.Expect(Mappings(path) <= 1, "the first segment is unmapped");
    }

    /// <summary>Moved by its own thread, then disposed by another one.</summary>
    public static void SpanAfterMoveAndDispose(string path)
    {
        Fill(path);
        MappedFileQueue queue = RaceVerb.Open(path);
        using MappedFileReader reader = MappedFileReader.Open(path);
        MappedFileConsumer consumer = queue.Consumer;
        ReadOnlySpan<byte> span = consumer.Consume();
        RaceVerb.Expect(reader.TryRead(out ReadOnlySpan<byte> read), "a message");
        consumer.Rewind();
        reader.Seek(QueueStart.Earliest);
        Elsewhere(() =>
        {
            queue.Dispose();
            reader.Dispose();
        });
        RaceVerb.Expect(IsWhole(span, 1) && IsWhole(read, 1), "the spans are whole after the Dispose");
        RaceVerb.ExpectDisposed(() => consumer.Consume());
        RaceVerb.ExpectDisposed(() => reader.TryRead(out _));
        RaceVerb.Expect(Mappings(path) == 0, "nothing is mapped after the threads' next calls");
    }

    /// <summary>
    /// A second thread takes over and copies messages up to the next segment, then a third one takes over. A copy is nobody's
    /// span: it counted as the first thread's, in whose place it was kept.
    /// </summary>
    public static void SpanAfterOthersCopies(string path)
    {
        using var queue = new MappedFileQueue<Guid>(new MappedFileQueueOptions { StorePath = path, SegmentSize = 64 * 1024 });
        var first = Guid.NewGuid();
        for (int i = 0; i < 5000; i++)
            queue.Producer.Produce(first);
        MappedFileConsumer<Guid> consumer = queue.Consumer;
        ref readonly Guid span = ref consumer.Peek();
        Elsewhere(() =>
        {
            do
                consumer.Commit();
            while (consumer.TryConsume(out _) && consumer.Offset < 64 * 1024);
        });
        Elsewhere(consumer.Advance);
        RaceVerb.Expect(span == first, "the message is there until this thread's next call");
    }

    /// <summary>
    /// A second thread reads while the first deserializes, and the consumer ends. The first thread then forgot the span of the
    /// second, and its next call unmapped it.
    /// </summary>
    public static void SpanAfterOtherForgets(string path)
    {
        Fill(path);
        using MappedFileQueue queue = RaceVerb.Open(path);
        MappedFileConsumer consumer = queue.Consumer;
        using var goes = new ManualResetEventSlim();
        using var hasSpan = new ManualResetEventSlim();
        Exception? failure = null;
        var second = new Thread(() =>
        {
            try
            {
                ReadOnlySpan<byte> span = consumer.Consume();
                hasSpan.Set();
                goes.Wait();
                RaceVerb.Expect(IsWhole(span, 1), "the span is whole until its thread's next call");
                RaceVerb.ExpectDisposed(() => consumer.Consume());
            }
            catch (Exception error)
            {
                failure = error;
            }
        });
        int length = consumer.ConsumeAsync(new Interrupted(() =>
        {
            second.Start();
            hasSpan.Wait();
            Elsewhere(consumer.Dispose);
        })).AsTask().Result;
        RaceVerb.Expect(length == Length, "the message of the first thread");
        RaceVerb.ExpectDisposed(consumer.Commit);
        goes.Set();
        second.Join();
        RaceVerb.Expect(failure is null, $"no failure of the second thread: {failure}");
        RaceVerb.Expect(Mappings(path) == 0, "nothing is mapped after the threads' next calls");
    }

    private static void Elsewhere(Action call)
    {
        var thread = new Thread(() => call());
        thread.Start();
        thread.Join();
    }

    private sealed class Interrupted(Action meanwhile) : IMessageDeserializer<int>
    {
        public int Deserialize(ReadOnlySpan<byte> message)
        {
            meanwhile();
            return message.Length;
        }
    }

    /// <summary>Two messages that lie in segments of their own; the producer has left both.</summary>
    private static long Fill(string path)
    {
        using MappedFileQueue queue = RaceVerb.Open(path);
        byte[] bytes = new byte[Length];
        bytes.AsSpan().Fill(1);
        queue.Producer.Produce(bytes);
        bytes.AsSpan().Fill(2);
        return queue.Producer.Produce(bytes);
    }

    private static bool IsWhole(ReadOnlySpan<byte> span, byte value) =>
        span.Length == Length && !span.ContainsAnyExcept(value);

    private static int Mappings(string path) =>
        File.ReadLines("/proc/self/maps").Count(line => line.Contains(path + "/commitlog", StringComparison.Ordinal));
}
