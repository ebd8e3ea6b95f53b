using MappedFileQueues.Format;
using MappedFileQueues.Log.Flushing;
using MappedFileQueues.Log.Opening;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Appending;

/// <summary>
/// Admits a queue as a producer: with a slot of its own, and the producers' lock, shared or exclusive. It never waits for that
/// lock under `open`: it takes `open`, tries the lock, releases `open`, sleeps. Under `open` and with the lock held, the bytes
/// that a dead Exclusive producer left beyond the tail are zeroed before any claim there.
/// </summary>
internal sealed unsafe class ProducerAdmission(LogStore store, SegmentRoller roller, FlushEngine flusher)
{
    private static readonly TimeSpan RetryPause = TimeSpan.FromMilliseconds(5);

    /// <summary>How long the end of a producer waits for openers.</summary>
    private static readonly TimeSpan EndWaitMax = TimeSpan.FromSeconds(1);

    public void Admit(bool isRegistered, ref PlatformLock? producersLock, bool alone)
    {
        if (producersLock is not null)
        {
            if (alone)
                throw InUse("This queue has an Exclusive producer already");
            return;
        }

        TimeSpan timeout = store.Settings.LockTimeout;
        var deadline = new Deadline(alone && timeout < LockWait.Passing ? LockWait.Passing : timeout);
        while (true)
        {
            store.ThrowIfClosing();
            store.ThrowIfReplaced();
            using (store.TakeOpenLock())
            {
                PlatformLock? taken = store.Directory.TryLock(
                    StoreNames.ProducersLock, alone ? LockKind.Exclusive : LockKind.Shared, create: false);
                if (taken is not null)
                {
                    try
                    {
                        store.Producers.Slot ??= store.Slots.Take();
                        Prepare(isRegistered, alone);
                        producersLock = taken;
                        return;
                    }
                    catch
                    {
                        store.Producers.Slot?.Dispose();
                        store.Producers.Slot = null;
                        taken.Dispose();
                        throw;
                    }
                }
            }

            store.ThrowIfLocksRemoved();
            if (deadline.IsOver)
                throw InUse(alone ? "Another producer is attached" : "An Exclusive producer is attached");
            Thread.Sleep(RetryPause);
        }
    }

    /// <summary>
    /// The Exclusive producer has ended in good order, and its dirty bytes are zeroed. If `open` is unavailable (no free
    /// descriptor, a stopped opener), the word stays set: the next producer then looks for dirty bytes and finds none.
    /// </summary>
    public void TryClearExclusive()
    {
        using PlatformLock? open = TryTakeOpen(store.Directory);
        if (open is null)
            return;
        store.Control.AnnounceColdWord(ControlLayout.ExclusiveAtWorkAt, 0);
        // P17 release: after the zeroing; pairs with P17 acquire in Prepare.
        SharedWord.WriteRelease(store.Control.ExclusiveAtWork, 0);
        store.Control.SealColdBlock(store.Meta.StoreId);
    }

    private static PlatformLock? TryTakeOpen(HeldDirectory directory)
    {
        try
        {
            return OpenLock.TryTake(directory, EndWaitMax);
        }
        catch (QueueDiskException)
        {
            return null;
        }
    }

    private void Prepare(bool isRegistered, bool alone)
    {
        // P17 acquire: an Exclusive producer that is gone set it; pairs with P17 release here and in TryClearExclusive.
        if (SharedWord.ReadAcquire(store.Control.ExclusiveAtWork) != 0)
            ZeroBeyondTail();
        if (alone && isRegistered)
            // P8 full: before its first publish; pairs with P8 acquire in WakeSignal.
            SharedWord.SetBits(store.Control.BarrierNeeded, 1);
        store.Control.AnnounceColdWord(ControlLayout.ExclusiveAtWorkAt, alone ? 1u : 0u);
        // P17 release: after the zeroing, and before the first append of this producer; pairs with P17 acquire above.
        SharedWord.WriteRelease(store.Control.ExclusiveAtWork, alone ? 1u : 0u);
        ProtocolSteps.Reach(ProtocolStep.ExclusiveMarked);
        store.Control.SealColdBlock(store.Meta.StoreId);
    }

    /// <summary>
    /// Zeroes what a dead Exclusive producer wrote and never published, between the tail and the allocated bound. The zeros are
    /// synced before any append, as in <see cref="StoreRecovery"/>.
    /// </summary>
    private void ZeroBeyondTail()
    {
        var lane = new AppendLane(store, Thread.CurrentThread);
        roller.MakeRoom(lane, FrameHeader.Size);
        try
        {
            SegmentMapping segment = lane.Segment!;
            long end = Math.Min(store.Allocated - segment.Start, segment.Usable);
            const int chunk = 1 << 20;
            for (long position = lane.Position; position < end; position += chunk)
            {
                long chunkEnd = Math.Min(position + chunk, end);
                if (segment.MakeReadable(position, chunkEnd, chunkEnd) < chunkEnd)
                    throw LogErrors.Truncated(segment, segment.Start + position);
                var bytes = new Span<byte>(segment.Pointer + position, (int)(chunkEnd - position));
                // Only bytes that are not zero are written: clean pages stay clean.
                int dirty = bytes.IndexOfAnyExcept((byte)0);
                if (dirty >= 0)
                    bytes[dirty..].Clear();
            }

            flusher.SyncAhead(segment.Start);
        }
        finally
        {
            roller.Unmap(lane);
        }
    }

    private QueueInUseException InUse(string what) =>
        store.Directory.InUse(
            StoreNames.ProducersLock, what, "Close it, use ProducerMode.Shared on all sides, or raise LockTimeout.",
            waited: store.Settings.LockTimeout);
}
