using MappedFileQueues.Format;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log;

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
/// What a reader needs of the store: given by an attached queue (<see cref="LogStore"/>) and by a reader that leaves no trace
/// (Inspection).
/// </summary>
internal unsafe interface ILogView
{
    string Path { get; }

    SegmentWindow Window { get; }

    FrameChecksum Checksum { get; }

    bool VerifiesChecksum { get; }

    /// <summary>The length of every message in bytes; -1 for a store of messages of any length.</summary>
    int FixedLength { get; }

    /// <summary>Offsets below it are gone.</summary>
    long LowWater { get; }

    /// <summary>Blocks exist up to here, as far as the control page says.</summary>
    long Allocated { get; }

    /// <summary>
    /// Whether a frame stood at this offset: somebody has gone past it, and nobody has removed it since. A header that reads as
    /// zero after this said yes is damage, not the end of the log.
    /// </summary>
    bool HasPassed(long offset);

    /// <summary>A frame's start, or the tail, that a walker has reached: the log goes that far at least.</summary>
    long PassedTo { get; }

    /// <summary>
    /// A hint: frames stand up to here, if the control page is what it should be. Says how many pages to ask for, and nothing
    /// else.
    /// </summary>
    long WrittenTo { get; }

    /// <summary>
    /// Behind <see cref="PassedTo"/> whole frames may stand that nobody has published: an Exclusive producer's.
    /// </summary>
    bool MayHoldUnpublished { get; }

    /// <summary>Somebody may append behind damage that readers stand before; false when the store refuses that.</summary>
    bool MayGrow { get; }

    /// <summary>Whether a claimed header among damaged bytes is a claim at all, and whether its owner lives.</summary>
    ClaimOwner OwnerOf(ulong claim);

    /// <summary>
    /// Whether a claimed header that was read at this place is damage that looks like a claim: it stands below what was
    /// flushed, where everything is published, or its owner has never been.
    /// </summary>
    bool IsDamage(ulong* header, ulong claim, long offset);

    /// <summary>Looks after a claim in the way.</summary>
    HoleFate Repair(ulong* header, ulong claim, long offset);

    /// <summary>Throws when the reader is disposed, or the store poisoned.</summary>
    void ThrowIfReadingEnded(LogReader reader);

    /// <summary>Throws when the store was deleted or replaced: what is missing is no damage then.</summary>
    void ThrowIfReplaced();

    /// <summary>Throws when a store of structs holds a message of another length.</summary>
    void ThrowIfWrongLength(int length, long offset);

    /// <summary>The exception for a frame that cannot be.</summary>
    QueueCorruptException Corrupt(long offset, ulong header, long room);

    /// <summary>The exception for a segment file that is shorter than it should be.</summary>
    QueueCorruptException Truncated(SegmentMapping segment, long offset);
}
