using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
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
/// <param name="store">The same for all queues on one store.</param>
internal sealed class OwnProducers((Guid Id, FileIdentity? Meta) store)
{
    /// <summary>Guards <see cref="s_all"/>, and the lists of all of them.</summary>
    private static readonly Lock s_lock = new();

    /// <summary>Those of this process that have producers: a thread may meet its own claim through another queue.</summary>
    private static readonly List<OwnProducers> s_all = [];

    private readonly (Guid Id, FileIdentity? Meta) _store = store;
    private readonly List<IProducerLanes> _producers = [];

    /// <summary>The owner of this queue's claims; null while it has no producers.</summary>
    public OwnerSlot? Slot { get; set; }

    /// <summary>Runs while this queue has producers.</summary>
    public SegmentPreparer? Preparer { get; set; }

    public void Add(IProducerLanes producer)
    {
        lock (s_lock)
        {
            if (_producers.Count == 0)
                s_all.Add(this);
            _producers.Add(producer);
        }
    }

    public void Remove(IProducerLanes producer)
    {
        lock (s_lock)
        {
            if (_producers.Remove(producer) && _producers.Count == 0)
                s_all.Remove(this);
        }
    }

    /// <summary>Whether a claim belongs to this queue, which holds its slot: alive, without a probe.</summary>
    public bool Own(ulong claim) => Slot is { } own && FrameHeader.HighHalf(claim) == own.Owner;

    /// <summary>
    /// Throws when this thread has an open claim on this store, by whichever queue of this process: it would wait for itself.
    /// </summary>
    /// <param name="inTheWay">The claim that it would wait for, where that is known.</param>
    public void ThrowIfOwnClaimIsOpen(ulong? inTheWay = null)
    {
        lock (s_lock)
        {
            foreach (OwnProducers queue in s_all)
            {
                if (queue._store == _store && (inTheWay is not { } claim || queue.Own(claim))
                    && queue._producers.Exists(static producer => producer.HasOwnOpenClaim()))
                    throw new InvalidOperationException("This thread has an open claim on this queue and would wait for itself. "
                        + "Publish or dispose the claim first.");
            }
        }
    }

    /// <inheritdoc cref="IProducerLanes.TakeBoundsBelow"/>
    public void TakeBoundsBelow(long offset)
    {
        lock (s_lock)
        {
            foreach (IProducerLanes producer in _producers)
                producer.TakeBoundsBelow(offset);
        }
    }
}
