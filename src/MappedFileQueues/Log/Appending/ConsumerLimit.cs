using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Log.Appending;

/// <summary>
/// How far the producers of this queue may go beyond the slowest consumer. The limit is one more reason for a lane's private
/// bound, so an append that is below it costs nothing more; the cursors are read when the bound is reached, at the latest each
/// 256 KiB. The bound is an offset of the log, and lanes of all processes write in one row, so no frame ends beyond the limit,
/// however many producers there are. Only a consumer that appears, or moves back, is found late, by one step of each lane.
/// <para>What follows the slowest cursor and is no message (padding: given-up claims, the rest of a segment) does not count: no
/// consumer commits it. A frame that is longer than the limit is admitted when everything before it is consumed.</para>
/// <para>Waiting (docs/DESIGN.md, section 8): a producer raises the flag of <see cref="LogStore.CapacityWake"/>, then looks at
/// the cursors; a consumer stores its cursor, passes a barrier, then looks at the flag. Consumers do so only once
/// <see cref="Segments.ControlPage.ProducersMayWait"/> is set. A consumer that read that word just before may still have its
/// cursor in its processor's store buffer, so the process that sets the word sends a barrier to everybody once.</para>
/// </summary>
internal sealed unsafe class ConsumerLimit(LogStore store, long bytesMax) : IDisposable
{
    /// <summary>The steps of a walk while a consumer may not have seen the word; no barrier orders it.</summary>
    private static readonly TimeSpan UnorderedSleepMin = TimeSpan.FromMilliseconds(1);

    private const ulong Announced = 1;
    private const ulong SeenByAll = 2;

    private readonly ConsumerCursors _cursors = new(store.Directory, store.Control, store.Os.IsPortable);
    private readonly GroupFloors _groups = new(store.Directory, store.Meta.StoreId, store.Control, store.Os.IsPortable);
    private readonly Lock _lock = new();
    private long _paddingFrom = -1;
    private long _paddingTo;
    private volatile bool _meetsClaim;

    /// <summary>The limit in bytes.</summary>
    public long BytesMax => bytesMax;

    /// <summary>
    /// The last look met a claim after the slowest cursor. Its owner may be dead, and then wakes no waiter.
    /// </summary>
    public bool MeetsClaim => _meetsClaim;

    /// <summary>Before the first append: from now on consumers look for waiting producers.</summary>
    public void Announce()
    {
        // P37 acquire: another queue has done it; pairs with P37 full below.
        if (SharedWord.ReadAcquire(store.Control.ProducersMayWait) == SeenByAll)
            return;
        SharedWord.SetBits(store.Control.ProducersMayWait, Announced); // P37 full: pairs with P37 acquire in LogConsumer.Commit.
        ProtocolSteps.Reach(ProtocolStep.WaitAnnounced);
        // A process that dies here leaves it to the next one; until then sleeps are short at first.
        if (store.Os.BarrierEverybody())
            // P37 full: after the barrier; pairs with P37 acquire.
            SharedWord.Exchange(store.Control.ProducersMayWait, SeenByAll);
    }

    /// <summary>Whether a frame, or a batch as a whole, may be appended.</summary>
    /// <param name="place">Where it would begin: the tail.</param>
    /// <param name="end">Where it would end, perhaps in the next segment.</param>
    /// <param name="ceiling">No frame after this one may end beyond it.</param>
    public bool Allows(long place, long end, out long ceiling)
    {
        while (true)
        {
            long slowest = FindSlowest();
            ceiling = Above(slowest);
            if (end <= ceiling)
                return true;
            long first = FindMessage(slowest, place);
            ceiling = Above(first);
            if (first >= place || end <= ceiling)
                return true;
            if (!_cursors.IsSlowestGone() && !_groups.IsSlowestGone())
                return false;
        }
    }

    /// <summary>The offset of the slowest consumer or group; <see cref="long.MaxValue"/> when there is none.</summary>
    public long FindSlowest() => Math.Min(_cursors.FindSlowest(), _groups.FindSlowest());

    /// <summary>Waiter's steps 1 to 3.</summary>
    /// <param name="sequence">The sequence, for the sleep.</param>
    /// <param name="sleeps">How often the waiter has slept.</param>
    /// <returns>The longest time that one sleep may last.</returns>
    public TimeSpan Prepare(out ulong sequence, int sleeps)
    {
        TimeSpan sleep = store.CapacityWake.Prepare(out sequence);
        // P37 acquire: pairs with P37 full in Announce.
        if (SharedWord.ReadAcquire(store.Control.ProducersMayWait) == SeenByAll)
            return sleep;
        TimeSpan unordered = UnorderedSleepMin * (1 << Math.Min(sleeps, 10));
        return unordered < sleep ? unordered : sleep;
    }

    public void Dispose()
    {
        _cursors.Dispose();
        _groups.Dispose();
    }

    private long Above(long offset) => offset > long.MaxValue - bytesMax ? long.MaxValue : offset + bytesMax;

    /// <summary>The first frame from a cursor on that is not padding; dead claims on the way become padding.</summary>
    private long FindMessage(long cursor, long place)
    {
        lock (_lock)
        {
            long from = cursor == _paddingFrom ? _paddingTo : cursor;
            var walk = new FrameWalk(store);
            try
            {
                (_paddingFrom, _paddingTo) = (cursor, walk.FindMessage(from, place));
            }
            catch (QueueCorruptException)
            {
                // The consumer will meet it, and knows its policy.
                return from;
            }

            _meetsClaim = walk.ClaimInTheWay != 0;
            return _paddingTo;
        }
    }
}
