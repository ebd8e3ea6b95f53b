using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Store;

/// <summary>What became of a claim in the way.</summary>
internal enum HoleFate
{
    /// <summary>Its owner lives: wait.</summary>
    Living,

    /// <summary>It is published or padding by now: look again.</summary>
    Changed,

    /// <summary>Its owner is dead, and this reader may not write: step over it.</summary>
    StepOver,
}

/// <summary>Whose claim a word is that looks like one.</summary>
internal enum ClaimOwner
{
    /// <summary>Nobody ever held the slot in this generation: it is no claim.</summary>
    Nobody,

    /// <summary>Of a producer that is gone.</summary>
    Dead,

    /// <summary>Of a producer that may still publish it.</summary>
    Living,
}

/// <summary>
/// What walkers and readers need of a store. It has two kinds: <see cref="LogStore"/>, which is attached and repairs, and the
/// one of a reader that leaves no trace (Inspection).
/// </summary>
/// <param name="directory">The store's directory; the view's from now on.</param>
/// <param name="meta">What the store is.</param>
/// <param name="verifiesChecksum">Whether readers verify each message.</param>
internal abstract unsafe class LogView(HeldDirectory directory, StoreMeta meta, bool verifiesChecksum)
{
    public HeldDirectory Directory => directory;

    public string Path => directory.Path;

    public StoreMeta Meta => meta;

    public FrameChecksum Checksum { get; } = new(meta.StoreId);

    public bool VerifiesChecksum => verifiesChecksum;

    /// <summary>The length of every message in bytes; -1 for a store of messages of any length.</summary>
    public int FixedLength { get; } = meta.Kind == StoreKind.Struct ? meta.StructSize : -1;

    public abstract SegmentWindow Window { get; }

    /// <summary>Offsets below it are gone.</summary>
    public abstract long LowWater { get; }

    /// <summary>Blocks exist up to here, as far as the control page says.</summary>
    public abstract long Allocated { get; }

    /// <summary>A frame's start, or the tail, that a walker has reached: the log goes that far at least.</summary>
    public abstract long PassedTo { get; }

    /// <summary>
    /// A hint: frames stand up to here, if the control page is what it should be. Says how many pages to ask for, and nothing
    /// else.
    /// </summary>
    public abstract long WrittenTo { get; }

    /// <summary>
    /// Behind <see cref="PassedTo"/> whole frames may stand that nobody has published: an Exclusive producer's.
    /// </summary>
    public abstract bool MayHoldUnpublished { get; }

    /// <summary>Somebody may append behind damage that readers stand before; false when the store refuses that.</summary>
    public abstract bool MayGrow { get; }

    /// <summary>
    /// Whether a frame stood at this offset: somebody has gone past it, and nobody has removed it since. A header that reads as
    /// zero after this said yes is damage, not the end of the log.
    /// </summary>
    public abstract bool HasPassed(long offset);

    /// <summary>Whether a claimed header among damaged bytes is a claim at all, and whether its owner lives.</summary>
    public abstract ClaimOwner OwnerOf(ulong claim);

    /// <summary>
    /// Whether a claimed header that was read at this place is damage that looks like a claim: it stands below what was
    /// flushed, where everything is published, or its owner has never been.
    /// </summary>
    public abstract bool IsDamage(ulong* header, ulong claim, long offset);

    /// <summary>Looks after a claim in the way.</summary>
    public abstract HoleFate Repair(ulong* header, ulong claim, long offset);

    /// <summary>Throws when the reader is disposed, or the store poisoned.</summary>
    public abstract void ThrowIfReadingEnded(bool isClosed);

    /// <summary>Throws when the store was deleted or replaced: what is missing is no damage then.</summary>
    public abstract void ThrowIfReplaced();

    /// <summary>Throws when a store of structs holds a message of another length.</summary>
    public void ThrowIfWrongLength(int length, long offset)
    {
        if (FixedLength >= 0 && length != FixedLength)
            throw new QueueCorruptException(
                $"A message has not the size of the store's struct: offset={offset}, length={length}, structSize={FixedLength}, "
                + $"path={Path}. What lies before it can be read; restore the file.",
                StoreNames.Segment(Window.StartOf(offset)), offset);
    }

    /// <summary>The exception for a frame that cannot be.</summary>
    public QueueCorruptException Corrupt(long offset, ulong header, long room) => LogErrors.Corrupt(Window, offset, header, room);
}
