using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Store;

/// <summary>
/// The one routine for a claimed frame in the way; readers, the flush walk, seeking and the start of an Exclusive producer use
/// it. A claim is dead when its slot's generation has moved on or its slot's lock is free, never by time-out and never by
/// process id. A dead claim becomes padding by one compare-and-swap: a repairer that dies has done it or has not. The repair
/// wakes sleepers as a publish does. Errors of the probe (EMFILE, EACCES), and a lock file that was removed, mean "unknown": they
/// are thrown, and nothing is changed.
/// </summary>
internal sealed unsafe class ClaimRepair(
    HeldDirectory directory, SlotTable slots, FrameChecksum checksum, WakeSignal wake, WakeSignal roomWake, ControlPage control)
{
    /// <summary>Turns the claim into padding if its owner is dead; true when the header no longer holds this claim.</summary>
    /// <param name="header">Where the claim is; mapped until this returns.</param>
    /// <param name="claim">The value that was read there.</param>
    /// <param name="offset">The claim's offset.</param>
    public bool TryRepair(ulong* header, ulong claim, long offset)
    {
        uint owner = FrameHeader.HighHalf(claim);
        int slot = SlotLayout.Slot(owner);
        // The generation has moved on: the new holder raised it under the lock that the claimant once held, so the claimant is
        // gone.
        if (slots.Generation(slot) != SlotLayout.Generation(owner))
            return TurnIntoPadding(header, claim, offset);

        // The header was read before the probe and is changed under it: no process can take over the slot in between.
        using PlatformLock? probe = directory.Probe(StoreNames.SlotLock(slot));
        // The owner made it, and may be alive.
        if (probe is not null && directory.Identify(StoreNames.SlotLock(slot)) is null)
            throw MetaLock.LocksRemoved(directory);
        ProtocolSteps.Reach(ProtocolStep.RepairProbed);
        if (probe is null && PlantedFaults.Has(PlantedFault.StoppedOwnerIsDead) && ProcFiles.IsStopped(slots.ProcessId(slot)))
            return TurnIntoPadding(header, claim, offset);
        // P3 acquire: whether the owner published meanwhile; pairs with P3 full in SharedAppender.
        return probe is null ? SharedWord.ReadAcquire(header) != claim : TurnIntoPadding(header, claim, offset);
    }

    /// <inheritdoc cref="LogView.IsDamage"/>
    public bool IsDamage(ulong* header, ulong claim, long offset)
    {
        // P18 acquire: everything below it was seen published; pairs with P18 full in FlushEngine.
        long flushedTo = SharedWord.ReadAcquire(control.Durable);
        // P16 acquire: a removal raises both, this one first, and claims may be open in what it removes; pairs with P16 full in
        // SegmentTrimmer.
        if (offset < SharedWord.ReadAcquire(control.LogStart))
            flushedTo = 0;
        return IsDamage(header, claim, offset, GenerationNow(claim), flushedTo);
    }

    /// <summary>
    /// As <see cref="IsDamage(ulong*, ulong, long)"/>, for a caller that knows the slot's generation and how far the log was
    /// flushed.
    /// </summary>
    /// <param name="header">Where the claim was read.</param>
    /// <param name="claim">The value that was read there.</param>
    /// <param name="offset">The claim's offset.</param>
    /// <param name="generationNow">Read after the header: a new holder raises it before its first claim.</param>
    /// <param name="flushedTo">Read after the header, too.</param>
    public static bool IsDamage(ulong* header, ulong claim, long offset, uint generationNow, long flushedTo) =>
        IsNobodys(FrameHeader.HighHalf(claim), generationNow)
        // P4 acquire: a real claim is gone by this load; pairs with P3 full in SharedAppender.
        || (offset < flushedTo && SharedWord.ReadAcquire(header) == claim);

    /// <summary>The state of the claim's owner; changes nothing.</summary>
    public ClaimOwner OwnerOf(ulong claim) => OwnerOf(directory, claim, GenerationNow(claim));

    /// <summary>As <see cref="OwnerOf(ulong)"/>, for a caller that knows the current generation of the claim's slot.</summary>
    public static ClaimOwner OwnerOf(HeldDirectory directory, ulong claim, uint generationNow)
    {
        uint owner = FrameHeader.HighHalf(claim);
        if (IsNobodys(owner, generationNow))
            return ClaimOwner.Nobody;
        if (SlotLayout.Generation(owner) < generationNow)
            return ClaimOwner.Dead;
        string slotLock = StoreNames.SlotLock(SlotLayout.Slot(owner));
        using PlatformLock? probe = directory.Probe(slotLock);
        if (probe is null)
            return ClaimOwner.Living;
        if (directory.Identify(slotLock) is not null)
            return ClaimOwner.Dead;
        // The owner made it, and may be alive.
        if (directory.Identify(StoreNames.Slots) is not null)
            throw MetaLock.LocksRemoved(directory);
        // Without the table this is a copy, which has no owners; or all of locks/ was removed under them (see MetaLock).
        using PlatformLock? alone = directory.Probe(StoreNames.Meta, LockKind.Exclusive);
        return alone is null ? ClaimOwner.Living : ClaimOwner.Dead;
    }

    /// <summary>Turns the caller's own claim, or one that it may fence, into padding; false when the claim is gone.</summary>
    public bool Abandon(ulong* header, ulong claim, long offset)
    {
        ulong padding = checksum.PaddingHeader(offset, FrameHeader.FrameLength(FrameHeader.Length(claim)));
        // P4 full: claimed to padding; pairs with P4 acquire in SegmentRoller and LogReader.
        if (!SharedWord.CompareExchange(header, claim, padding))
            return false;
        ProtocolSteps.Reach(ProtocolStep.RepairDone);
        if (PlantedFaults.Has(PlantedFault.SilentRepair))
            return true;
        wake.WakeIfAwaited();
        // A claim counts as unconsumed, padding does not.
        roomWake.WakeIfAwaited();
        return true;
    }

    /// <summary>The slot has not reached the claim's generation.</summary>
    private static bool IsNobodys(uint owner, uint generationNow) =>
        SlotLayout.Generation(owner) == 0 || SlotLayout.Generation(owner) > generationNow;

    private uint GenerationNow(ulong claim) => slots.Generation(SlotLayout.Slot(FrameHeader.HighHalf(claim)));

    private bool TurnIntoPadding(ulong* header, ulong claim, long offset)
    {
        if (PlantedFaults.Has(PlantedFault.DeadFrameReused))
        {
            SharedWord.CompareExchange(header, claim, 0); // P4 full: frees the place; pairs with P4 acquire in LogReader.
            return true;
        }

        if (Abandon(header, claim, offset))
            SharedWord.Add(control.RepairCount, 1); // P13 full: for info; pairs with P13 acquire in StoreStatus.TryGather.
        return true;
    }
}
