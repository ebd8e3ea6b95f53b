using MappedFileQueues.Format;
using MappedFileQueues.Format.Index;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Index;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Inspection;

/// <summary>
/// How far consumers are behind, in messages and in time. Messages are counted by the index, or by a walk over all of them where
/// there is none, and where that is as short: retention of a small store may turn over faster than a number is found.
/// </summary>
/// <param name="directory">The store.</param>
/// <param name="meta">Its geometry.</param>
/// <param name="control">Its control page; null without a valid one.</param>
/// <param name="now">The time of now.</param>
internal sealed class ConsumerLag(HeldDirectory directory, StoreMeta meta, ControlPage? control, DateTimeOffset now) : IDisposable
{
    /// <summary>A walk of this length takes a fraction of a millisecond.</summary>
    private const long StepMax = 1L << IndexPage.StepBitsFirst;

    /// <summary>Opens the index: before the end is looked for, so that what it speaks of is before the end.</summary>
    private readonly MessageSearch _search = new(
        directory, meta, () => LogStartSearch.Find(directory, meta, control),
        at => new QueueCorruptException(
            $"The log cannot be counted: offset={at}, path={directory.Path}. Run `mfq verify`.",
            StoreNames.Segment(meta.StartOf(at)), at));

    private readonly List<TimeMark> _marks = new CheckpointFile(directory, meta.StoreId).ReadMarks();
    private MessageCounter? _counter;
    private long _published;
    private bool _counts;

    /// <summary>The log start: what is before it counts no more.</summary>
    public long LogStart { get; set; }

    /// <summary>Where messages are numbered from 0.</summary>
    public long NumberedFrom { get; private set; }

    /// <summary>Counts up to an end, where that is asked for.</summary>
    public void Begin(long logStart, long published, bool counts)
    {
        (LogStart, _published, _counts) = (logStart, published, counts);
        bool isKnown = _search.FindNewest(logStart, published) is not null;
        NumberedFrom = isKnown ? _search.Origin : logStart;
        if (!counts || (isKnown && published - logStart > StepMax))
            return;
        _counter = new MessageCounter(directory, meta);
        _counter.Count(logStart, published);
    }

    /// <summary>The messages from an offset on; null when they are not counted, or damage is in the way.</summary>
    public long? CountFrom(long offset)
    {
        if (!_counts || _counter is not null)
            return _counter?.CountFrom(offset, LogStart);
        try
        {
            return _search.CountFrom(Math.Max(offset, LogStart), _published);
        }
        catch (QueueCorruptException)
        {
            return null;
        }
    }

    /// <summary>
    /// The number of the end, or of the newest place of the index where the end is more than a step away; null without an index.
    /// </summary>
    public long? CountAppended()
    {
        try
        {
            return _search.FindNewest(LogStart, _published) is not { } newest ? null
                : _published - newest.Offset > StepMax ? newest.Number
                : _search.NumberAt(_published, _published);
        }
        catch (MappedFileQueueException error) when (error is QueueCorruptException or OffsetOutOfRangeException)
        {
            // Damage is in the way, or retention has overtaken the walk.
            return null;
        }
    }

    /// <summary>How long the message at an offset has been there, at least.</summary>
    public TimeSpan? AgeFrom(long offset) => _search.AgeFrom(offset, _published, now, _marks);

    public void Dispose() => _search.Dispose();
}
