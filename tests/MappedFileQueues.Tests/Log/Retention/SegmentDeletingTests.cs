using MappedFileQueues.Format;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Retention;

/// <summary>On which threads a handler of SegmentDeleting is called, and what it may do.</summary>
public sealed class SegmentDeletingTests : IDisposable
{
    private const int SegmentLength = 4096;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// A process died after it had raised the log start. A consumer that is there settles that in its Commit, and told the
    /// handler of each segment on the consumer's thread: a handler that commits overflowed the stack, and an exception of a
    /// handler left Commit. The segments are told of when they are removed.
    /// </summary>
    [Fact]
    public void Commit_RemoverDied_TellsNoHandlerUntilTheSegmentsGo()
    {
        using MappedFileQueue queue = Open();
        queue.SetRetention(new RetentionOptions { KeepUnconsumed = false });
        using MappedFileConsumer consumer = queue.OpenConsumer("c", QueueStart.Earliest);
        Fill(queue);
        consumer.Consume();
        PeerAgent.KillRemover(_temp.StorePath, "LogStartRaised");

        List<long> told = [];
        queue.SegmentDeleting += (_, segment) =>
        {
            told.Add(segment.Offset);
            if (told.Count == 1)
                throw new InvalidOperationException("the archive is full");
        };

        Assert.Throws<OffsetOutOfRangeException>(consumer.Commit);

        Assert.Empty(told);
        Assert.True(File.Exists(_temp.PathOf(StoreNames.Segment(0))));
        long low = queue.GetInfo().LogStart;
        Assert.InRange(low, SegmentLength, long.MaxValue);
        Assert.Throws<InvalidOperationException>(() => queue.Trim(0));
        Assert.Equal(low, queue.Trim(0));
        Assert.False(File.Exists(_temp.PathOf(StoreNames.Segment(0))));
        Assert.Equal([0, .. Enumerable.Range(0, (int)(low / SegmentLength)).Select(i => (long)i * SegmentLength)], told);
    }

    /// <summary>Each call told of the same segment again, and the handler called again, without an end.</summary>
    [Fact]
    public void Trim_ByAHandler_IsRefused()
    {
        using MappedFileQueue queue = Open();
        long last = Fill(queue);
        EventHandler<SegmentDeletingEventArgs> handler = (_, _) => queue.Trim(long.MaxValue);
        queue.SegmentDeleting += handler;

        InvalidOperationException error = Assert.Throws<InvalidOperationException>(() => queue.Trim(long.MaxValue));

        Assert.Contains("cannot trim the store", error.Message, StringComparison.Ordinal);
        Assert.Equal(0, queue.GetInfo().LogStart);
        queue.SegmentDeleting -= handler;
        Assert.Equal(last / SegmentLength * SegmentLength, queue.Trim(long.MaxValue));
    }

    /// <summary>
    /// A handler that cannot have a thread, to archive the segment, throws this error. It ended the process: the thread that
    /// applies the policy kept every other one to itself.
    /// </summary>
    [Fact]
    public void Apply_HandlerIsOutOfMemory_ShowsThatAndKeepsTheSegment() =>
        Assert.Equal("no thread", ApplyWithHandlerThatThrows(new OutOfMemoryException("no thread")));

    /// <summary>It ended the process: nothing catches what the thread throws that applies the policy.</summary>
    [Fact]
    public void Apply_TextOfTheHandlersErrorThrows_ShowsThatAndKeepsTheSegment() =>
        Assert.Contains("text cannot be had", ApplyWithHandlerThatThrows(new TextThrows()), StringComparison.Ordinal);

    /// <summary>Applies a policy as the retention thread does, and returns the error that is shown; no segment goes.</summary>
    private string? ApplyWithHandlerThatThrows(Exception error)
    {
        using MappedFileQueue queue = Open();
        Fill(queue);
        LogStore store = queue.Engine.Store;
        RetentionFile.Write(store.Directory, store.Meta.StoreId, new RetentionOptions { MaxBytes = SegmentLength });
        queue.SegmentDeleting += (_, _) => throw error;

        queue.Engine.Retention.Apply();

        MappedFileQueueInfo info = queue.GetInfo();
        Assert.Equal(0, info.LogStart);
        return info.LastRetentionError;
    }

    private static long Fill(MappedFileQueue queue)
    {
        long last = 0;
        for (int i = 0; i < 300; i++)
            last = queue.Producer.Produce(CrashMessage.Make($"m{i}", 64));
        return last;
    }

    private MappedFileQueue Open() =>
        new(new MappedFileQueueOptions { StorePath = _temp.StorePath, SegmentSize = SegmentLength });
}
