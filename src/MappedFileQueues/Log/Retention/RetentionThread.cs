using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Retention;

/// <summary>
/// Applies the store's policy, on a thread of its own: at every roll of this queue's producers and consumers, and once a second.
/// The thread starts when the store has a policy. Every attached queue has one, so a store is trimmed as long as any process has
/// it open.
/// <para>It owes nothing to a particular caller, so it throws no errors: the control page shows them, and the next look tries
/// again.</para>
/// </summary>
internal sealed unsafe class RetentionThread : IDisposable
{
    private static readonly TimeSpan LookInterval = TimeSpan.FromSeconds(1);

    /// <summary>As many files wait to be used again as producers fill in this time.</summary>
    private static readonly TimeSpan SparesLast = TimeSpan.FromMilliseconds(100);

    /// <summary>When producers have filled no segment for this long, no file waits.</summary>
    private static readonly TimeSpan SparesIdle = TimeSpan.FromMinutes(1);

    private const int SparesAtFirst = 2;

    /// <summary>But never more than this, nor more than the policy keeps.</summary>
    private const long SparesBytesMax = 256L * 1024 * 1024;

    /// <summary>What a policy keeps at most for which nothing is written back before a flush, and mappings stay.</summary>
    private const long KeptLittle = 1L << 30;

    private const int MappedMax = 32;

    /// <summary>
    /// The store takes at most so many times what the policy keeps, unless the disk is too slow for the producers.
    /// </summary>
    private const int TakenMax = 2;

    private readonly LogStore _store;
    private readonly SegmentTrimmer _trimmer;
    private readonly Action<SegmentDeletingEventArgs>? _deleting;
    private readonly Lock _starting = new();
    private readonly Lock _looking = new();
    private readonly AutoResetEvent _noticed = new(false);
    private volatile Thread? _thread;
    private volatile bool _stopping;
    private volatile bool _isLooking;
    private volatile bool _isFull;
    private int _filesMax = int.MaxValue;
    private long _announcedTo;
    private DateTimeOffset _failingSince;
    private string? _failure;
    private long _measuredAt = Stopwatch.GetTimestamp();
    private long _measuredTail;
    private int _sparesMax = SparesAtFirst;
    private bool _mayHaveSpares = true;

    /// <param name="store">The store.</param>
    /// <param name="deleting">Called before a segment is removed; its exception keeps the segment.</param>
    public RetentionThread(LogStore store, Action<SegmentDeletingEventArgs>? deleting)
    {
        _store = store;
        _deleting = deleting;
        _trimmer = new SegmentTrimmer(store);
        store.Maker.IsSpareDue = IsSpareDue;
        _measuredTail = Tail();
        store.Rolled = NoticeRoll;
    }

    /// <summary>
    /// A producer or consumer of this queue has entered a segment. Never waits and never fails: where the system gives no thread,
    /// the next roll tries again.
    /// </summary>
    public void NoticeRoll()
    {
        try
        {
            if (_thread is not null || _store.Directory.Identify(StoreNames.Retention) is not null)
                Notice();
        }
        catch (MappedFileQueueException error)
        {
            // The next roll tries again.
            _store.Control.RetentionFailure.Write(_store.Settings.TimeProvider.GetUtcNow(), error.Message);
        }
    }

    /// <summary>The store has a policy, perhaps a new one.</summary>
    /// <exception cref="MappedFileQueueException">The system gives no thread.</exception>
    public void Notice()
    {
        if (ProtocolSteps.Background is { } background)
        {
            background(TryLook);
            return;
        }

        if (_thread is null)
            Start();
        _isLooking = true;
        _noticed.Set();
    }

    /// <summary>Applies the policy on the calling thread. What fails is left to the next look.</summary>
    public void Apply() => TryLook();

    /// <summary>Removes what a policy would that is not the store's yet, because its file has no room. Keeps no file.</summary>
    public void MakeRoom(RetentionOptions next)
    {
        lock (_looking)
        {
            RetentionPlan plan = RetentionPlan.Make(_store.Directory, _store.Meta, next, _store.LowWater, Tail(),
                _store.Settings.TimeProvider.GetUtcNow());
            _trimmer.RemoveSpares();
            _ = _trimmer.Remove(Announce(plan.Goal, next), ReadPolicy(), 0, next);
            _store.Window.DropRemoved();
        }
    }

    /// <summary>Removes whole segments before an offset, as far as consumers allow it; returns the oldest offset kept.</summary>
    /// <exception cref="InvalidOperationException">A handler that is told of a segment calls it.</exception>
    public long Trim(long before)
    {
        if (_looking.IsHeldByCurrentThread)
            throw new InvalidOperationException($"A handler that is told of a removal cannot trim the store: path={_store.Path}. "
                + "Trim after it has returned.");
        while (true)
        {
            RetentionOptions? policy = ReadPolicy();
            lock (_looking)
            {
                if (Remove(before, policy, policy is not null && MayRecycle(policy)) is { } oldest)
                    return oldest;
            }
        }
    }

    /// <inheritdoc cref="SegmentTrimmer.TrySettle"/>
    public void Settle()
    {
        while (!_trimmer.TrySettle(ReadPolicy()))
        {
            // Another policy was set in between.
        }
    }

    /// <summary>The oldest offset that <see cref="Trim"/> would keep.</summary>
    public long FindKept(long before)
    {
        long[] removable = _trimmer.FindRemovable(before, ReadPolicy() ?? new RetentionOptions());
        return removable.Length == 0 ? _store.LowWater : removable[^1] + _store.Meta.SegmentLength;
    }

    /// <summary>The start of the first segment that was written to at a time or later.</summary>
    public long FindWrittenSince(DateTimeOffset time)
    {
        DateTimeOffset now = _store.Settings.TimeProvider.GetUtcNow();
        long found = _store.LowWater;
        for (long start = found; start < Tail(); start += _store.Meta.SegmentLength)
        {
            using PlatformFile? file = _store.Directory.Open(StoreNames.Segment(start), FileOpening.Read);
            if (file is null)
                break;
            DateTimeOffset written = file.LastWritten;
            if (written < time)
                found = start + _store.Meta.SegmentLength;
            // A time to come is that of a clock that was wrong; the segments after it tell whether this one is older.
            else if (written <= now)
                break;
        }

        return found;
    }

    /// <summary>Ends the thread, after the removal under way.</summary>
    public void Dispose()
    {
        Thread? thread;
        lock (_starting)
        {
            _stopping = true;
            thread = _thread;
        }

        _noticed.Set();
        // A handler of an event may close the queue.
        if (thread is not null && thread != Thread.CurrentThread)
            thread.Join();
        _noticed.Dispose();
        _trimmer.Dispose();
    }

    private void Start()
    {
        lock (_starting)
        {
            if (_thread is null && !_stopping)
                _thread = BackgroundThread.Start(Run, "retention");
        }
    }

    private void Run()
    {
        while (!_stopping)
        {
            TryLook();
            if (!_stopping)
                _noticed.WaitOne(LookInterval);
        }
    }

    private void TryLook()
    {
        // A handler that is told of a segment may set a policy.
        if (_stopping || _looking.IsHeldByCurrentThread)
            return;
        _isLooking = true;
        try
        {
            lock (_looking)
                Show(Look());
        }
        catch (Exception error) when (error is not OutOfMemoryException)
        {
            // For example no free descriptor, a damaged policy, or a handler that could not archive: nothing is removed now.
            Show(error.Message);
        }
        finally
        {
            (_isLooking, _isFull) = (false, false);
        }
    }

    /// <summary>
    /// Whether a look is under way in a store that takes all that it may: a producer that needs a segment waits a little for the
    /// file that becomes free.
    /// </summary>
    private bool IsSpareDue() => _isLooking && IsFull(out bool hasSpare) && !hasSpare;

    /// <summary>
    /// Whether the store takes all that it may. One that was full is so until the look is over, because a removed file takes room
    /// as long as it is mapped.
    /// </summary>
    private bool IsFull(out bool hasSpare)
    {
        IReadOnlyList<string> files = _store.Directory.List(StoreNames.CommitLog);
        hasSpare = files.Any(StoreNames.IsSpare);
        if (files.Count >= _filesMax)
            _isFull = true;
        return _isFull;
    }

    /// <summary>Shows every process that retention fails, or that it succeeds again.</summary>
    private void Show(string? failure)
    {
        // A handler may have closed the queue: the page is unmapped. And a look that the queue's end has ended has not failed.
        if (_stopping || _store.IsClosing)
            return;
        FailureWords shown = _store.Control.RetentionFailure;
        if (failure == _failure && shown.IsSet == failure is not null)
            return;
        if (_failure is null)
            _failingSince = _store.Settings.TimeProvider.GetUtcNow();
        _failure = failure;
        if (failure is null)
            shown.Clear();
        else
            shown.Write(_failingSince, failure);
    }

    /// <summary>Returns what keeps it from applying the policy, if it can go on beside it; null when nothing does.</summary>
    private string? Look()
    {
        _store.ThrowIfReplaced();
        if (ReadPolicy() is not { } policy)
            return null;
        Measure(policy);
        _ = IsFull(out _);
        // What waits to be used again takes the room that the disk is short of.
        bool isShort = policy.MinFreeBytes is { } least && _store.Directory.FreeBytes < least;
        bool recycles = MayRecycle(policy) && !isShort;
        KeepSpares(recycles && _sparesMax > 0);
        if (!policy.HasLimit)
            return null;
        RetentionPlan plan = RetentionPlan.Make(_store.Directory, _store.Meta, policy, _store.LowWater, Tail(),
            _store.Settings.TimeProvider.GetUtcNow());
        if (plan.Limit > _store.LowWater)
            _ = Remove(plan.Goal, policy, recycles);
        // Also what others have removed.
        _store.Window.DropRemoved();
        return plan.Problem;
    }

    /// <summary>The first look of a queue removes them too: those who kept them may be gone.</summary>
    private void KeepSpares(bool keeps)
    {
        if (_mayHaveSpares && !keeps)
            _trimmer.RemoveSpares();
        _mayHaveSpares = keeps;
    }

    private long? Remove(long before, RetentionOptions? policy, bool recycles)
    {
        before = Announce(before, policy ?? new RetentionOptions());
        long? oldest = _trimmer.Remove(before, policy, recycles ? _sparesMax : 0);
        // The temporary names of a queue with producers are its own.
        if (recycles && _store.Producers.Slot is not null)
            _trimmer.UseSpares(_sparesMax);
        return oldest;
    }

    /// <summary>Tells of each segment once, without any lock of the store; returns up to where all were told of.</summary>
    private long Announce(long before, RetentionOptions policy)
    {
        if (_deleting is null)
            return before;
        foreach (long start in _trimmer.FindRemovable(before, policy))
        {
            long end = start + _store.Meta.SegmentLength;
            if (start < _announcedTo)
                continue;
            _deleting(new SegmentDeletingEventArgs(
                System.IO.Path.Combine(_store.Path, StoreNames.Segment(start)), start, end));
            // The handler may have closed the queue.
            ObjectDisposedException.ThrowIf(_stopping, this);
            _announcedTo = end;
        }

        return Math.Min(before, _announcedTo);
    }

    /// <summary>How many files shall wait to be used again: it follows the speed of the producers.</summary>
    private void Measure(RetentionOptions policy)
    {
        long segmentLength = _store.Meta.SegmentLength;
        // Two less, for the segment behind the tail's and for the small files.
        long sparesLimit = Math.Max(1, (Math.Min(SparesBytesMax, policy.MaxBytes ?? long.MaxValue) / segmentLength) - 2);
        long kept = policy is { Recycle: true, MaxBytes: { } most } ? (most / segmentLength) + sparesLimit : long.MaxValue;
        _store.KeepsLittle = kept <= KeptLittle / segmentLength;
        _store.Window.IdleMax = _store.KeepsLittle && kept <= MappedMax && MayRecycle(policy) ? (int)kept : 0;
        _filesMax = _store.Window.IdleMax > 0
            ? (int)Math.Max(kept + 1, (policy.MaxBytes!.Value * TakenMax / segmentLength) - 1)
            : int.MaxValue;
        TimeSpan elapsed = Stopwatch.GetElapsedTime(_measuredAt);
        long tail = Tail();
        long segments = (tail - _measuredTail) / segmentLength;
        if (elapsed < LookInterval || (segments == 0 && elapsed < SparesIdle))
            return;
        int least = segments > 0 ? 1 : 0;
        _sparesMax = (int)Math.Clamp(Math.Ceiling(segments * (SparesLast / elapsed)), least, sparesLimit);
        (_measuredAt, _measuredTail) = (Stopwatch.GetTimestamp(), tail);
    }

    /// <summary>Portable has no marks, nor does it tell one file from another.</summary>
    private bool MayRecycle(RetentionOptions policy) => policy.Recycle && !_store.Os.IsPortable && !_store.HasPollers;

    private RetentionOptions? ReadPolicy() => RetentionFile.Read(_store.Directory, _store.Meta.StoreId);

    // P14 acquire: a frame's start; pairs with P14 full in SegmentRoller.
    private long Tail() => SharedWord.ReadAcquire(_store.Control.TailHint);
}
