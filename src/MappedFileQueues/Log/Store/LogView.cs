using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Store;

/// <summary>The fate of a claim in the way.</summary>
internal enum ClaimFate
{
    /// <summary>Its owner is alive: wait.</summary>
    Living,

    /// <summary>It was published or became padding: read again.</summary>
    Changed,

    /// <summary>Its owner is dead, and this reader may not write: step over it.</summary>
    StepOver,
}

/// <summary>The owner of a word that looks like a claim.</summary>
internal enum ClaimOwner
{
    /// <summary>No process ever held the slot in this generation: it is not a claim.</summary>
    Nobody,

    /// <summary>A producer that is gone.</summary>
    Dead,

    /// <summary>A producer that may still publish it.</summary>
    Living,
}

/// <summary>
/// What walkers and readers need of a store. There are two kinds: <see cref="LogStore"/>, which is attached and repairs, and
/// that of a reader that leaves no trace (Inspection).
/// </summary>
/// <param name="directory">The store's directory; the view owns it from now on.</param>
/// <param name="meta">The store's meta page.</param>
/// <param name="verifiesChecksum">Whether readers verify each message.</param>
internal abstract unsafe class LogView(HeldDirectory directory, StoreMeta meta, bool verifiesChecksum)
{
    private const uint EmptiesPerLook = 64;

    /// <summary>How often a call that waits looks whether the store is still the one that was opened.</summary>
    private static readonly TimeSpan s_lookInterval = TimeSpan.FromSeconds(1);

    public HeldDirectory Directory => directory;

    public string Path => directory.Path;

    public StoreMeta Meta => meta;

    public FrameChecksum Checksum { get; } = meta.Checksum;

    public bool VerifiesChecksum => verifiesChecksum;

    /// <summary>The length of every message in bytes; -1 for a store of messages of any length.</summary>
    public int FixedLength { get; } = meta.Kind == StoreKind.Struct ? meta.StructSize : -1;

    public abstract SegmentWindow Window { get; }

    /// <summary>Offsets below it are gone.</summary>
    public abstract long LogStart { get; }

    /// <summary>Blocks exist up to here, according to the control page.</summary>
    public abstract long Allocated { get; }

    /// <summary>The start of a frame, or the tail, that a walker has reached: the log goes at least that far.</summary>
    public abstract long PassedTo { get; }

    /// <summary>
    /// The tail hint: frames are there up to here, if the control page is right. For a reader it decides only how many pages to
    /// ask for.
    /// </summary>
    public abstract long WrittenTo { get; }

    /// <summary>Whole frames of an Exclusive producer that are not published may follow <see cref="PassedTo"/>.</summary>
    public abstract bool MayHoldUnpublished { get; }

    /// <summary>Producers may append after damage at which readers stop; false when the store refuses that.</summary>
    public abstract bool MayGrow { get; }

    /// <summary>
    /// Whether a frame was at this offset: a walker has passed it, and it was not removed since. If the header reads as zero
    /// after this returned true, that is damage, not the end of the log.
    /// </summary>
    public abstract bool HasPassed(long offset);

    /// <summary>Whether a claimed header among damaged bytes is a claim at all, and whether its owner is alive.</summary>
    public abstract ClaimOwner OwnerOf(ulong claim);

    /// <summary>
    /// Whether a claimed header at this place is damage that looks like a claim: it is below what was flushed, where
    /// everything is published, or its owner never existed.
    /// </summary>
    public abstract bool IsDamage(ulong* header, ulong claim, long offset);

    /// <summary>Repairs a claim in the way if its owner is dead.</summary>
    public abstract ClaimFate Repair(ulong* header, ulong claim, long offset);

    /// <summary>Throws when the reader is disposed, or when the store is poisoned.</summary>
    /// <param name="isClosed">Whether it is.</param>
    /// <param name="name">Who reads, for users.</param>
    public abstract void ThrowIfReadingEnded(bool isClosed, string name = PublicNames.Consumer);

    /// <summary>Throws when the store was deleted or replaced: then missing data is not damage.</summary>
    public abstract void ThrowIfReplaced();

    /// <summary>The same for a call that waits: it looks once an interval.</summary>
    /// <param name="looked">When it looked last, by Stopwatch; at first, when the wait began, or 0 to look at once.</param>
    /// <param name="now">The time, by Stopwatch.</param>
    public void ThrowIfReplaced(ref long looked, long now)
    {
        if (IsLookDue(ref looked, now))
            ThrowIfReplaced();
    }

    /// <summary>Whether it is time for the next look; notes it then.</summary>
    /// <inheritdoc cref="ThrowIfReplaced(ref long, long)" path="/param"/>
    public static bool IsLookDue(ref long looked, long now)
    {
        if (Stopwatch.GetElapsedTime(looked, now) < s_lookInterval)
            return false;
        looked = now;
        return true;
    }

    /// <summary>
    /// The same for a call that found nothing and does not wait: a program may poll, and never wait. The clock is read once in
    /// some calls.
    /// </summary>
    /// <param name="empties">How many such calls there were.</param>
    /// <param name="looked">As above.</param>
    public void ThrowIfReplacedNowAndThen(ref uint empties, ref long looked)
    {
        if (++empties % EmptiesPerLook == 0)
            ThrowIfReplaced(ref looked, Stopwatch.GetTimestamp());
    }

    /// <summary>Throws when a store of structs holds a message of another length.</summary>
    public void ThrowIfWrongLength(int length, long offset)
    {
        if (FixedLength >= 0 && length != FixedLength)
            throw new QueueCorruptException(
                $"A message is not the size of the store's struct: offset={offset}, length={length}, structSize={FixedLength}, "
                + $"path={Path}. What is before it can be read; restore the file, or run `mfq repair`.",
                StoreNames.Segment(Window.StartOf(offset)), offset);
    }

    /// <summary>The exception for an impossible frame.</summary>
    public QueueCorruptException Corrupt(long offset, ulong header) => LogErrors.Corrupt(Window, offset, header);

    /// <summary>The same for a place whose header nobody has read; throws when the store was replaced instead.</summary>
    public QueueCorruptException CorruptUnlessReplaced(long offset)
    {
        ThrowIfReplaced();
        return Corrupt(offset, 0);
    }
}
