using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Store;

/// <summary>The lanes of one producer, as seen by callers that do not append.</summary>
internal interface IProducerLanes
{
    /// <summary>True while the calling thread has an open claim.</summary>
    bool HasOwnOpenClaim();

    /// <summary>
    /// Sends the lanes that are below an offset to their rare path, which checks everything that the common path leaves out.
    /// </summary>
    void TakeBoundsBelow(long offset);
}

/// <summary>
/// The producers of this queue, for code that meets their claims: a flush, a repair, a waiting consumer. A flush asks at a claim
/// in its way, so the lock guards only the list. Any thread.
/// </summary>
internal sealed class OwnProducers
{
    private readonly Lock _lock = new();
    private readonly List<IProducerLanes> _producers = [];

    /// <summary>The owner of this queue's claims; null while it has no producers.</summary>
    public OwnerSlot? Slot { get; set; }

    /// <summary>Runs while this queue has producers.</summary>
    public SegmentPreparer? Preparer { get; set; }

    public void Add(IProducerLanes producer)
    {
        lock (_lock)
            _producers.Add(producer);
    }

    public void Remove(IProducerLanes producer)
    {
        lock (_lock)
            _producers.Remove(producer);
    }

    /// <summary>Whether a claim belongs to this queue, which holds its slot: alive, without a probe.</summary>
    public bool Own(ulong claim) => Slot is { } own && FrameHeader.HighHalf(claim) == own.Owner;

    /// <summary>Throws when this thread has an open claim on this queue: it would wait for itself.</summary>
    public void ThrowIfOwnClaimIsOpen()
    {
        lock (_lock)
        {
            bool isOpen = false;
            foreach (IProducerLanes producer in _producers)
                isOpen |= producer.HasOwnOpenClaim();
            if (isOpen)
                throw new InvalidOperationException(
                    "This thread has an open claim on this queue and would wait for itself. Publish or dispose the claim first.");
        }
    }

    /// <inheritdoc cref="IProducerLanes.TakeBoundsBelow"/>
    public void TakeBoundsBelow(long offset)
    {
        lock (_lock)
        {
            foreach (IProducerLanes producer in _producers)
                producer.TakeBoundsBelow(offset);
        }
    }
}
