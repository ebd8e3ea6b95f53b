namespace MappedFileQueues.Tests.Crash.Openers;

/// <summary>A reader that leaves no trace is attached to nothing: the store may be recovered under it.</summary>
public sealed class WatchedRecoveryTests : IDisposable
{
    private readonly TempStore _temp = new();
    private readonly FaultyDisk _disk = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// Recovery after poison puts new files in the segments' places. A reader stayed in the old file, where nobody appends any
    /// more, and waited for ever.
    /// </summary>
    [Fact]
    public void TryRead_StoreWasRecoveredFromPoison_GoesOnInTheNewFiles()
    {
        MappedFileReader reader;
        using (MappedFileQueue queue = Open())
        {
            queue.Producer.Produce([1]);
            queue.Flush();
            queue.Producer.Produce([2]);
            reader = MappedFileReader.Open(_temp.StorePath);
            Expect(reader, 1);
            Expect(reader, 2);
            _disk.FailNextSync("commitlog/");
            Assert.Throws<QueueDiskException>(() => queue.Flush());
        }

        using (reader)
        using (MappedFileQueue queue = Open())
        {
            queue.Producer.Produce([3]);
            Expect(reader, 3);
            queue.Producer.Produce([4]);
            Expect(reader, 4);
        }
    }

    /// <summary>What was cut off below a reader may come again as other messages: its place says nothing any more.</summary>
    [Fact]
    public void TryRead_LogWasCutOffBelowIt_Throws()
    {
        using (MappedFileReader reader = ReadThreeOfWhichTheSecondIsLost(new byte[100]))
        using (MappedFileQueue queue = Open())
        {
            Assert.Equal(16, queue.Producer.Offset);
            Assert.Throws<OffsetOutOfRangeException>(() => reader.TryRead(out _));
            reader.Seek(QueueStart.Latest);
            queue.Producer.Produce([4]);
            Expect(reader, 4);
        }
    }

    /// <summary>
    /// Behind a cut the log is filled with other messages of the same lengths: the reader's place is a frame's start again, and
    /// it continued there without those before.
    /// </summary>
    [Fact]
    public void TryRead_LogWasCutOffBelowItAndFilledAgain_Throws()
    {
        using (MappedFileReader reader = ReadThreeOfWhichTheSecondIsLost([2]))
        using (MappedFileQueue queue = Open())
        {
            for (byte i = 11; i <= 14; i++)
                queue.Producer.Produce([i]);
            for (int attempt = 0; attempt < 2; attempt++)
                Assert.Throws<OffsetOutOfRangeException>(() => reader.TryRead(out _));
            reader.Seek(QueueStart.FromOffset(16));
            for (byte i = 11; i <= 14; i++)
                Expect(reader, i);
        }
    }

    /// <summary>A reader behind three messages, of which the disk took the first; the flush of the others has failed.</summary>
    private MappedFileReader ReadThreeOfWhichTheSecondIsLost(byte[] second)
    {
        using MappedFileQueue queue = Open();
        queue.Producer.Produce([1]);
        queue.Flush();
        long lost = queue.Producer.Produce(second);
        queue.Producer.Produce([3]);
        MappedFileReader reader = MappedFileReader.Open(_temp.StorePath);
        foreach (byte[] expected in new byte[][] { [1], second, [3] })
        {
            Assert.True(reader.TryRead(out ReadOnlySpan<byte> message));
            Assert.Equal(expected, message.ToArray());
        }

        _disk.FailNextSync("commitlog/");
        Assert.Throws<QueueDiskException>(() => queue.Flush());
        using var words = new StoreWords(_temp.StorePath);
        words.WriteAt(lost + 8, 0xEE);
        return reader;
    }

    private static void Expect(MappedFileReader reader, byte expected)
    {
        Assert.True(reader.TryRead(out ReadOnlySpan<byte> message, Eventually.DefaultDeadline), $"message {expected}");
        Assert.Equal([expected], message.ToArray());
    }

    private MappedFileQueue Open() => new(new MappedFileQueueOptions
    {
        StorePath = _temp.StorePath,
        Durability = DurabilityLevel.PageCache,
    });
}
