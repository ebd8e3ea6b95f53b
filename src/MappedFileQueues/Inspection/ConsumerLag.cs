using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Index;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Inspection;

/// <summary>
/// How far consumers are behind, in messages and in time. Messages are counted by the index, or by a walk over all of them where
/// there is none.
/// </summary>
internal sealed class ConsumerLag : IDisposable
{
    private readonly HeldDirectory _directory;
    private readonly StoreMeta _meta;
    private readonly FrameChecksum _checksum;
    private readonly DateTimeOffset _now;
    private readonly MessageSearch _search;
    private readonly List<TimeMark> _marks;
    private MessageCounter? _counter;
    private long _published;
    private bool _counts;

    /// <summary>Reads the index: before the end is looked for, so that what it speaks of is before the end.</summary>
    /// <param name="directory">The store.</param>
    /// <param name="meta">Its geometry.</param>
    /// <param name="control">Its control page; null without a valid one.</param>
    /// <param name="now">The time of now.</param>
    public ConsumerLag(HeldDirectory directory, StoreMeta meta, ControlPage? control, DateTimeOffset now)
    {
        (_directory, _meta, _now, _checksum) = (directory, meta, now, new FrameChecksum(meta.LogId));
        _search = new MessageSearch(
            directory, meta, _checksum, () => LogStartSearch.Find(directory, meta, control),
            at => new QueueCorruptException(
                $"The log cannot be counted: offset={at}, path={directory.Path}. Run `mfq verify`.",
                StoreNames.Segment(meta.StartOf(at)), at));
        _marks = new CheckpointFile(directory, meta.StoreId).ReadMarks();
    }

    /// <summary>The log start: what is before it counts no more.</summary>
    public long Oldest { get; set; }

    /// <summary>Where messages are numbered from 0.</summary>
    public long NumberedFrom { get; private set; }

    /// <summary>Counts up to an end, where that is asked for.</summary>
    public void Begin(long oldest, long published, bool counts)
    {
        (Oldest, _published, _counts) = (oldest, published, counts);
        long? origin = _search.FindOrigin(oldest, published);
        NumberedFrom = origin ?? oldest;
        if (!counts || origin is not null)
            return;
        _counter = new MessageCounter(_directory, _meta, _checksum);
        _counter.Count(oldest, published);
    }

    /// <summary>The messages from an offset on; null when they are not counted, or damage is in the way.</summary>
    public long? CountFrom(long offset)
    {
        if (!_counts || _counter is not null)
            return _counter?.CountFrom(offset, Oldest);
        try
        {
            return _search.CountFrom(Math.Max(offset, Oldest), _published);
        }
        catch (QueueCorruptException)
        {
            return null;
        }
    }

    /// <summary>How long the message at an offset has been there, at least.</summary>
    public TimeSpan? AgeFrom(long offset) => _search.AgeFrom(offset, _published, _now, _marks);

    public void Dispose() => _search.Dispose();
}
