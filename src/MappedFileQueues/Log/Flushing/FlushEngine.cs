using System.Diagnostics;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Index;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Flushing;

/// <summary>
/// The flushes of one queue. A leader (FlushEngine.Lead.cs) walks from the durable offset over published frames, syncs every
/// segment in between (fdatasync covers other processes' stores too), checks for poison again, then raises the durable offset
/// for every process (FlushEngine.Round.cs). All other threads that wait for a flush sleep until the durable offset has reached
/// their goal or until no thread leads; in that case one of them leads. Followers of this process's leader, and asynchronous
/// calls, share its flush (FlushEngine.Group.cs); a thread that waits for another process's leader sleeps on the flush words of
/// the control page. A thread of the queue flushes for calls that do not wait (FlushEngine.Background.cs).
/// </summary>
/// <param name="store">The store.</param>
internal sealed unsafe partial class FlushEngine(LogStore store) : IDisposable
{
    private readonly LogStore _store = store;

    /// <summary>Why background flushes fail, if they do.</summary>
    public FlushFailure Failure { get; } = new(store);

    /// <summary>
    /// Flushes everything that was published before the call; returns the new durable offset. Waits for frames below that end
    /// which living producers have claimed; claims of dead producers become padding.
    /// </summary>
    public long Flush()
    {
        _store.ThrowIfReplaced();
        _store.Producers.ThrowIfOwnClaimIsOpen();
        _store.ThrowIfDamaged("confirmed");
        return WaitFor(FindPublishedEnd(), CallDeadline.Endless, checkpoints: true);
    }

    /// <summary>
    /// Returns once everything before the goal is on disk, by this thread's flush or another's. The goal must already be
    /// published. If the wait ends early, the messages stay appended and visible; their durability is unknown until a flush of
    /// any process has passed them.
    /// </summary>
    public long WaitFor(long goal, in CallDeadline deadline, bool checkpoints = false)
    {
        using CancellationTokenRegistration registration =
            deadline.CancellationToken.UnsafeRegister(static engine => ((FlushEngine)engine!).Interrupt(), this);
        if (_store.ConfirmedOffset < goal)
            Expect();
        bool isCalled = false;
        try
        {
            while (true)
            {
                long confirmed = _store.ConfirmedOffset;
                if (confirmed >= goal)
                    return confirmed;
                if (_store.Wake.IsPoisoned)
                    throw _store.Poisoned();
                ThrowIfOver(deadline, goal);
                // From here on the leader, this thread or another, calls the next one.
                isCalled = false;
                if (!TryLead(goal, deadline, checkpoints))
                    isCalled = Follow(goal, deadline);
            }
        }
        finally
        {
            if (isCalled && !IsLeadTaken)
                _group.CallNext();
        }
    }

    /// <summary>
    /// Flushes what is contiguous up to the start of the segment that the tail is in, and writes a checkpoint there. Never waits
    /// for another leader: that one does the same, and the next roll comes here again. Waiting for a leader that is stopped would
    /// hold up the end of the queue, which waits for this thread.
    /// </summary>
    public void FlushCompletedSegments()
    {
        long goal = FindCompletedEnd();
        // Unmapped before it is written: without this the benchmark's append_roll took twice the time.
        _store.Producers.Preparer?.ReleaseBelow(goal);
        if (goal > _store.ConfirmedOffset)
            TryLeadOneRound(goal, checkpoint: true);
    }

    /// <summary>Makes all threads that wait for a flush look again: cancellation, Dispose.</summary>
    public void Interrupt()
    {
        _store.FlushWake.Interrupt();
        _group.Interrupt();
    }

    /// <summary>
    /// The end of the engine, after all calls of the queue have ended: ends the thread after the work under way, makes the last
    /// flush where the level promises one, ends the asynchronous calls. A failure here has poisoned the queue for the processes
    /// that remain and for the next opener; a Dispose does not throw.
    /// </summary>
    public void Dispose()
    {
        Uninterrupted.Run(EndThread);
        try
        {
            Uninterrupted.Run(FlushForTheLastTime);
        }
        catch (Exception error) when (error is MappedFileQueueException or ObjectDisposedException)
        {
            // What cannot be flushed now is left to the other processes.
            Debug.Assert(error is not ObjectDisposedException, "Nothing is closed yet.");
        }

        EndPending();
        _lease.Dispose();
    }

    private void FlushForTheLastTime()
    {
        if (_ticks && !_store.Wake.IsPoisoned)
            FlushAtEnd();
        CheckpointDurable();
        KeepIndex(isLast: true);
    }

    /// <summary>The end of what is published now.</summary>
    private long FindPublishedEnd() => new FrameWalk(_store).FindPublishedEnd(_store.ConfirmedOffset);

    /// <summary>The start of the segment that the tail is in.</summary>
    private long FindCompletedEnd() => _store.Window.StartOf(_store.WrittenTo);

    private bool IsAnythingUnflushed()
    {
        long confirmed = _store.ConfirmedOffset;
        return new FrameWalk(_store).FindContiguousEnd(confirmed, confirmed + 1) > confirmed;
    }

    /// <summary>From now on a caller waits for a flush, whichever thread leads it.</summary>
    private void Expect()
    {
        _group.Come();
        _store.Producers.Preparer?.NoticeFlush();
    }

    private void ThrowIfOver(in CallDeadline deadline, long goal)
    {
        if (deadline.CancellationToken.IsCancellationRequested)
            throw Cancelled(goal, deadline.CancellationToken);
        if (deadline.IsOver)
            throw new TimeoutException("The flush did not end in time. The messages stay appended; their durability is not "
                + $"known yet: wanted={goal}, confirmed={_store.ConfirmedOffset}, timeout={deadline.TimeAllowed}, "
                + $"path={_store.Path}. Check ConfirmedOffset, or call Flush; do not produce the messages again.");
    }

    /// <summary>The exception for a call that was cancelled after its message was published.</summary>
    private OperationCanceledException Cancelled(long goal, CancellationToken cancellationToken) => new(
        "Cancelled while waiting for the flush. The messages stay appended; their durability is not known yet: "
        + $"wanted={goal}, confirmed={_store.ConfirmedOffset}, path={_store.Path}. Do not produce the messages again.",
        cancellationToken);
}
