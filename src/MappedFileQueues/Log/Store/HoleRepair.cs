using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Store;

/// <summary>
/// The one routine for a claimed frame in somebody's way: readers, the flush walk, seeking and an Exclusive producer's start use
/// it. A claim is dead when its slot's generation has moved on or its slot's lock is free, never by time-out and never by process
/// id. A dead claim becomes padding by one compare-and-swap, which a repairer that dies anywhere leaves done or not done, and
/// whoever slept behind it is woken as by a publish. Errors of the probe (EMFILE, EACCES) mean "unknown": they are thrown, and
/// nothing is changed.
/// </summary>
internal sealed unsafe class HoleRepair(
    HeldDirectory directory, SlotTable slots, FrameChecksum checksum, WakeSignal wake, ControlPage control)
{
    /// <summary>Turns the claim into padding if its owner is dead; true when the header is no longer this claim.</summary>
    /// <param name="header">Where the claim stands; mapped until this returns.</param>
    /// <param name="claim">What was read there.</param>
    /// <param name="offset">The claim's offset.</param>
    public bool TryRepair(ulong* header, ulong claim, long offset)
    {
        uint owner = FrameHeader.HighHalf(claim);
        int slot = SlotLayout.Slot(owner);
        // A generation that has moved on: the taker raised it under the lock that the claimant once held, so the claimant is
        // gone.
        if (slots.Generation(slot) != SlotLayout.Generation(owner))
            return TurnIntoPadding(header, claim, offset);

        // The header was read before the probe, and is changed under it: nobody can take the slot over in between.
        using PlatformLock? probe = directory.Probe(StoreNames.SlotLock(slot));
        ProtocolSteps.Reach(ProtocolStep.RepairProbed);
#if MFQ_PLANTED
        if (probe is null && PlantedFaults.Has(PlantedFault.StoppedOwnerIsDead) && ProcFiles.IsStopped(slots.ProcessId(slot)))
            return TurnIntoPadding(header, claim, offset);
#endif
        // P3 acquire: whether the owner published meanwhile; pairs with P3 full in SharedAppender.
        return probe is null ? SharedWord.ReadAcquire(header) != claim : TurnIntoPadding(header, claim, offset);
    }

    /// <inheritdoc cref="LogView.IsDamage"/>
    public bool IsDamage(ulong* header, ulong claim, long offset) =>
        // P18 acquire: whoever raised it saw all below it published; pairs with P18 full in FlushRound.
        IsDamage(header, claim, offset, GenerationNow(claim), SharedWord.ReadAcquire(control.Confirmed));

    /// <summary>The same for whoever knows which generation the claim's slot has now, and how far the log was flushed.</summary>
    /// <param name="header">Where the claim was read.</param>
    /// <param name="claim">What was read there.</param>
    /// <param name="offset">The claim's offset.</param>
    /// <param name="generationNow">Asked after the header was read: a taker raises it before its first claim.</param>
    /// <param name="flushedTo">Asked after the header was read, too.</param>
    public static bool IsDamage(ulong* header, ulong claim, long offset, uint generationNow, long flushedTo) =>
        IsNobodys(FrameHeader.HighHalf(claim), generationNow)
        // P4 acquire: a real claim is gone at this look; pairs with P3 full in SharedAppender.
        || (offset < flushedTo && SharedWord.ReadAcquire(header) == claim);

    /// <summary>Whose claim this is, changing nothing.</summary>
    public ClaimOwner OwnerOf(ulong claim) => OwnerOf(directory, claim, GenerationNow(claim));

    /// <summary>The same for whoever knows which generation the claim's slot has now.</summary>
    public static ClaimOwner OwnerOf(HeldDirectory directory, ulong claim, uint generationNow)
    {
        uint owner = FrameHeader.HighHalf(claim);
        if (IsNobodys(owner, generationNow))
            return ClaimOwner.Nobody;
        if (SlotLayout.Generation(owner) < generationNow)
            return ClaimOwner.Dead;
        using PlatformLock? probe = directory.Probe(StoreNames.SlotLock(SlotLayout.Slot(owner)));
        return probe is null ? ClaimOwner.Living : ClaimOwner.Dead;
    }

    /// <summary>
    /// Turns a claim of this caller's own, or one that it may fence, into padding; false when it was no longer there.
    /// </summary>
    public bool Abandon(ulong* header, ulong claim, long offset)
    {
        ulong padding = checksum.PaddingHeader(offset, FrameHeader.FrameLength(FrameHeader.Length(claim)));
        // P4 full: claimed to padding; pairs with P4 acquire in SegmentRoller and LogReader.
        if (!SharedWord.CompareExchange(header, claim, padding))
            return false;
        ProtocolSteps.Reach(ProtocolStep.RepairDone);
#if MFQ_PLANTED
        if (PlantedFaults.Has(PlantedFault.SilentRepair))
            return true;
#endif
        wake.WakeIfAwaited();
        return true;
    }

    /// <summary>A generation that its slot has not reached.</summary>
    private static bool IsNobodys(uint owner, uint generationNow) =>
        SlotLayout.Generation(owner) == 0 || SlotLayout.Generation(owner) > generationNow;

    private uint GenerationNow(ulong claim) => slots.Generation(SlotLayout.Slot(FrameHeader.HighHalf(claim)));

    private bool TurnIntoPadding(ulong* header, ulong claim, long offset)
    {
#if MFQ_PLANTED
        if (PlantedFaults.Has(PlantedFault.DeadFrameReused))
        {
            SharedWord.CompareExchange(header, claim, 0);
            return true;
        }

#endif
        if (Abandon(header, claim, offset))
            SharedWord.Add(control.RepairCount, 1); // P13 full: a counter for info; pairs with P13 acquire in StoreStatus.Gather.
        return true;
    }
}
