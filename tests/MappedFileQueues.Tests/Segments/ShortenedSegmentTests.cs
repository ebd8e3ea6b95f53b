using MappedFileQueues.Format;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Segments;

/// <summary>Somebody makes a segment shorter while a producer has it mapped.</summary>
public sealed class ShortenedSegmentTests
{
    /// <summary>
    /// The end of the file was then inside the blocks that the producer wanted next, and Produce blamed its caller: it threw an
    /// ArgumentOutOfRangeException with the name of no parameter of its own.
    /// </summary>
    [Fact]
    public void Produce_FileEndsBeforeTheNextBlocks_SaysThatTheSegmentIsDamaged()
    {
        PlatformScope.Use(portable: false);
        using TempStore store = new();
        MappedFileQueueOptions options = new() { StorePath = store.StorePath, SegmentSize = 64 * 1024 * 1024, PrepareAhead = 0 };
        using MappedFileQueue queue = new(options);
        using MappedFileProducer producer = queue.OpenProducer();
        producer.Produce("first"u8);
        string file = Path.Combine(store.StorePath, StoreNames.Segment(0));
        // Further than what the producer may store into without asking for more.
        using (FileStream stream = new(file, FileMode.Open, FileAccess.Write, FileShare.ReadWrite | FileShare.Delete))
            stream.SetLength(2 * 1024 * 1024);

        QueueCorruptException error = Assert.Throws<QueueCorruptException>(() =>
        {
            for (int i = 0; i < 64; i++)
                producer.Produce(new byte[100_000]);
        });

        Assert.Equal(StoreNames.Segment(0), error.File);
        Assert.Contains("length=2097152", error.Message, StringComparison.Ordinal);
    }
}
