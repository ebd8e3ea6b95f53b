namespace MappedFileQueues.Tests.Hostile;

/// <summary>
/// Messages that were there and are gone without a trace: a page that reads as zeros, a segment that somebody removed from the
/// middle. The story: a free header, and a file that is not there, mean "nothing yet", so consumers waited for ever in front of
/// confirmed messages, and `Flush()` returned as if all was well. What a walker has passed cannot be free again.
/// </summary>
public sealed class VanishedMessagesTests : IDisposable
{
    private const int Segment = 64 * 1024;
    private const int Count = 400;
    private const int Length = 1000;
    private const int FrameLength = 1008;

    private readonly TempStore _store = new();

    public void Dispose() => _store.Dispose();

    [Theory]
    [InlineData(false, 8 * FrameLength)]
    [InlineData(false, 4 * Segment)]
    [InlineData(true, Segment)]
    [InlineData(true, 3 * Segment)]
    public void Read_VanishedBelowTheCheckpoint_ReadsUpToItThenThrows(bool isWholeFile, long place)
    {
        long[] offsets;
        using (MappedFileQueue queue = Open())
        {
            offsets = Fill(queue);
            queue.Flush();
        }

        Damage(isWholeFile, place);
        int before = offsets.Count(offset => offset + FrameLength <= place);
        using (MappedFileQueue queue = Open())
        using (MappedFileConsumer consumer = queue.OpenConsumer("late"))
        {
            Assert.True(place <= Expect(before, offsets, () =>
            {
                Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message));
                consumer.Advance();
                return message[0];
            }));
            Assert.Throws<QueueCorruptException>(() => consumer.Consume());
        }

        using MappedFileReader reader = MappedFileReader.Open(_store.StorePath);
        Expect(before, offsets, () =>
        {
            Assert.True(reader.TryRead(out ReadOnlySpan<byte> message));
            return message[0];
        });
    }

    /// <summary>
    /// A header that no flush had passed was zeroed, and the producer's own thread went on behind it. The flush that its next
    /// message waited for ended before that place each time, and the call waited for ever.
    /// </summary>
    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public async Task Produce_GroupAfterAVanishedHeader_Throws(ProducerMode mode)
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions
        {
            StorePath = _store.StorePath,
            SegmentSize = Segment,
            Durability = DurabilityLevel.PageCache,
            ProducerMode = mode,
        });
        long[] offsets = [.. Enumerable.Range(0, 9).Select(_ => queue.Producer.Produce(new byte[Length]))];
        Damage(isWholeFile: false, offsets[5]);

        Assert.Throws<QueueCorruptException>(ProduceInTime);
        Assert.Equal(offsets[5], queue.ConfirmedOffset);
        Task<long> later = queue.Producer.ProduceAsync(
            new byte[Length], new ProduceOptions { Durability = DurabilityLevel.Group }).AsTask();
        await Assert.ThrowsAsync<QueueCorruptException>(
            () => later.WaitAsync(TimeSpan.FromSeconds(20), TestContext.Current.CancellationToken));

        void ProduceInTime() => queue.Producer.Produce(new byte[Length], new ProduceOptions
        {
            Durability = DurabilityLevel.Group,
            Timeout = TimeSpan.FromSeconds(20),
        });
    }

    /// <summary>
    /// A segment that was cut to less than a header. The story: where the control page cannot be believed, it counted as one
    /// that nobody had written to, the log was taken to begin after it, and the messages before it were gone without a word.
    /// </summary>
    [Theory]
    [InlineData(0)]
    [InlineData(7)]
    public void Read_SegmentCutToLessThanAHeaderAndControlLost_ReadsWhatLiesBeforeIt(int length)
    {
        long[] offsets;
        using (MappedFileQueue queue = Open())
        {
            offsets = Fill(queue);
            queue.Flush();
        }

        using (FileStream segment = new(Segments()[2], FileMode.Open, FileAccess.Write))
            segment.SetLength(length);
        File.Delete(_store.PathOf("control"));

        using MappedFileReader reader = MappedFileReader.Open(_store.StorePath);
        Expect(offsets.Count(offset => offset + FrameLength <= 2 * Segment), offsets, () =>
        {
            Assert.True(reader.TryRead(out ReadOnlySpan<byte> message));
            return message[0];
        });
    }

    /// <summary>Damage under an attached queue: a flush says so, and confirms nothing after it.</summary>
    [Fact]
    public void Flush_VanishedAboveConfirmed_Throws()
    {
        using MappedFileQueue queue = Open(1 << 20);
        Fill(queue);
        Damage(isWholeFile: false, 8 * FrameLength);

        QueueCorruptException error = Assert.Throws<QueueCorruptException>(() => queue.Flush());
        Assert.Equal(8 * FrameLength, error.Offset);
        Assert.True(queue.GetInfo().ConfirmedOffset <= error.Offset);
    }

    private static long[] Fill(MappedFileQueue queue)
    {
        byte[] message = new byte[Length];
        return [.. Enumerable.Range(0, Count).Select(i =>
        {
            message.AsSpan().Fill((byte)(1 + (i % 255)));
            return queue.Producer.Produce(message);
        })];
    }

    /// <summary>Reads what lies wholly before the damage, perhaps the message in it, then the exception.</summary>
    private static long Expect(int before, long[] offsets, Func<byte> read)
    {
        for (int i = 0; i < before; i++)
            Assert.Equal((byte)(1 + (i % 255)), read());
        QueueCorruptException error = Assert.Throws<QueueCorruptException>(() => read());
        Assert.InRange(error.Offset, before == 0 ? 0 : offsets[before - 1], offsets[before + 1]);
        return error.Offset + FrameLength;
    }

    private MappedFileQueue Open(long segment = Segment) =>
        new(new MappedFileQueueOptions
        {
            StorePath = _store.StorePath,
            SegmentSize = segment,
            // What is damaged is not flushed yet.
            FlushInterval = Timeout.InfiniteTimeSpan,
        });

    private string[] Segments() => [.. Directory.GetFiles(_store.PathOf("commitlog")).Order(StringComparer.Ordinal)];

    private void Damage(bool isWholeFile, long place)
    {
        string[] files = Segments();
        string file = files[files.Length > 2 ? (int)(place / Segment) : 0];
        if (isWholeFile)
        {
            File.Delete(file);
            return;
        }

        using FileStream segment = new(file, FileMode.Open, FileAccess.Write, FileShare.ReadWrite | FileShare.Delete);
        segment.Position = place % Segment;
        segment.Write(new byte[8192]);
    }
}
