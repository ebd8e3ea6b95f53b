using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Tests.Log.Reading;

/// <summary>
/// An asynchronous wait at the end of a segment. The story: it looked for the next file, which was not there; the file was made
/// and appended to; it looked whether the log continues, and it did; and then it looked after a claim in the way, at a header
/// that it had never reached: after the end of its mapping. The process died.
/// </summary>
public sealed unsafe class AwaitedSegmentTests
{
    private const int Segment = 64 * 1024;

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void HasSomething_NextSegmentIsMadeBetweenTheLooks_TheHeaderIsReachedFirst(bool standsInTheOneBefore)
    {
        using TempStore store = new();
        var options = new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = Segment };
        FillOneSegment(store, options);
        using var core = new StoreEngine(options, StoreKind.Messages, 0, 0);
        using var other = new MappedFileQueue(options);
        var view = new ViewBetweenLooks(core.Store, () => Append(other, 400));
        var reader = new LogReader(view);
        reader.MoveTo(standsInTheOneBefore ? 0 : Segment);
        for (int i = 0; standsInTheOneBefore && i < Segment / 1024; i++)
        {
            Assert.Equal(ReadStatus.Message, reader.TryRead(out _, out _));
            reader.Advance();
        }

        Assert.True(reader.HasSomething());
        view.LooksAtSegments = 0;
        Assert.True(reader.TryRepairClaim());

        Assert.True(view.LooksAtSegments > 0, "it enters the segment before it looks at a header there");
        Assert.Equal(ReadStatus.Message, reader.TryRead(out _, out int length));
        Assert.Equal(1016, length);
        reader.ReleaseSegment();
    }

    private static void FillOneSegment(TempStore store, MappedFileQueueOptions options)
    {
        using (var queue = new MappedFileQueue(options))
            Append(queue, Segment / 1024);
        foreach (string ahead in Directory.GetFiles(store.PathOf(StoreNames.CommitLog)).Order(StringComparer.Ordinal).Skip(1))
            File.Delete(ahead);
    }

    private static void Append(MappedFileQueue queue, int count)
    {
        for (int i = 0; i < count; i++)
            queue.Producer.Produce(new byte[1016]);
    }

    /// <summary>The store, with something that happens right before the look whether the log continues.</summary>
    private sealed class ViewBetweenLooks(LogStore store, Action between)
        : LogView(store.Directory, store.Meta, store.VerifiesChecksum)
    {
        private bool _isOver;

        /// <summary>A reader asks this before it enters a segment.</summary>
        public int LooksAtSegments { get; set; }

        public override SegmentWindow Window => store.Window;

        public override long LogStart => store.LogStart;

        public override long Allocated => store.Allocated;

        public override long PassedTo => store.PassedTo;

        public override long WrittenTo => store.WrittenTo;

        public override bool MayHoldUnpublished => store.MayHoldUnpublished;

        public override bool MayGrow => store.MayGrow;

        public override bool HasPassed(long offset)
        {
            if (!_isOver)
                between();
            _isOver = true;
            return store.HasPassed(offset);
        }

        public override ClaimOwner OwnerOf(ulong claim) => store.OwnerOf(claim);

        public override ClaimFate Repair(ulong* header, ulong claim, long offset) => store.Repair(header, claim, offset);

        public override void ThrowIfReadingEnded(bool isClosed, string name)
        {
            LooksAtSegments++;
            store.ThrowIfReadingEnded(isClosed, name);
        }

        public override bool IsDamage(ulong* header, ulong claim, long offset) => store.IsDamage(header, claim, offset);

        public override void ThrowIfReplaced() => store.ThrowIfReplaced();
    }
}
