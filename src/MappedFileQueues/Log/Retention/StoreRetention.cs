using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Retention;

/// <summary>
/// One queue's part in a store's retention: looks at the policy, removes what it no longer keeps, and keeps files to use again.
/// Any thread; one look or trim at a time.
/// </summary>
/// <param name="store">The store.</param>
/// <param name="deleting">Called before a segment is removed; its exception keeps the segment.</param>
internal sealed class StoreRetention(LogStore store, Action<SegmentDeletingEventArgs>? deleting) : IDisposable
{
    /// <summary>How often a queue looks at the policy.</summary>
    public static readonly TimeSpan LookInterval = TimeSpan.FromSeconds(1);

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

    private readonly SegmentTrimmer _trimmer = new(store);
    private readonly Lock _looking = new();
    private long _announcedTo;
    private DateTimeOffset _failingSince;
    private string? _failure;
    private long _measuredAt = Stopwatch.GetTimestamp();
    private long _measuredTail = store.WrittenTo;
    private int _sparesMax = SparesAtFirst;
    private bool _mayHaveSpares = true;

    /// <summary>Whether this thread is told of a segment, or about to be.</summary>
    public bool IsLooking => _looking.IsHeldByCurrentThread;

    /// <summary>Applies the policy now. It owes nothing to a particular caller, so it throws no errors: the control page shows
    /// them, and the next look tries again.</summary>
    public void Apply()
    {
        // A handler that is told of a segment may set a policy.
        if (store.HasEnded || IsLooking)
            return;
        store.Spares.BeginLook();
        try
        {
            lock (_looking)
                Show(Look());
        }
        catch (Exception error)
        {
            // For example no free descriptor, a damaged policy, or a handler that could not archive: nothing is removed now.
            Show(ErrorText.Of(error));
        }
        finally
        {
            store.Spares.EndLook();
        }
    }

    /// <summary>
    /// Whether the messages at an offset are gone for good. Below the log start they need not be: a removal raises it before it
    /// looks at the cursors for the last time, and may take it back. So this waits for a removal under way; it completes, or
    /// takes back, that of a process that died over it.
    /// </summary>
    public bool IsRemoved(long offset)
    {
        if (offset >= store.LogStart)
            return false;
        // Before what is recorded it is certain, and no lock is needed.
        if (offset >= CheckpointFile.ReadLogStart(store.Directory, store.Meta))
            Settle();
        return offset < store.LogStart;
    }

    /// <summary>Removes what a policy would that is not the store's yet, because its file has no room. Keeps no file.</summary>
    public void MakeRoom(RetentionOptions next)
    {
        lock (_looking)
        {
            RetentionPlan plan = RetentionPlan.Make(store.Directory, store.Meta, next, store.LogStart, store.WrittenTo,
                store.Settings.TimeProvider.GetUtcNow());
            _trimmer.RemoveSpares();
            _ = _trimmer.Remove(Announce(plan.Goal, next), ReadPolicy(), 0, next);
            store.Window.DropRemoved();
        }
    }

    /// <summary>Removes whole segments before an offset, as far as consumers allow it; returns the log start.</summary>
    /// <exception cref="InvalidOperationException">A handler that is told of a segment calls it.</exception>
    public long Trim(long before)
    {
        if (IsLooking)
            throw new InvalidOperationException($"A handler that is told of a removal cannot trim the store: path={store.Path}. "
                + "Trim after it has returned.");
        while (true)
        {
            RetentionOptions? policy = ReadPolicy();
            lock (_looking)
            {
                if (Remove(before, policy, policy is not null && MayRecycle(policy)) is { } logStart)
                    return logStart;
            }
        }
    }

    /// <inheritdoc cref="SegmentTrimmer.TrySettle"/>
    private void Settle()
    {
        while (!_trimmer.TrySettle(ReadPolicy()))
        {
            // Another policy was set in between.
        }
    }

    /// <summary>The log start that <see cref="Trim"/> would leave.</summary>
    public long FindKept(long before)
    {
        long[] removable = _trimmer.FindRemovable(before, ReadPolicy() ?? new RetentionOptions());
        return removable.Length == 0 ? store.LogStart : removable[^1] + store.Meta.SegmentLength;
    }

    /// <summary>The start of the first segment that was written to at a time or later.</summary>
    public long FindWrittenSince(DateTimeOffset time)
    {
        DateTimeOffset now = store.Settings.TimeProvider.GetUtcNow();
        long found = store.LogStart;
        for (long start = found; start < store.WrittenTo; start += store.Meta.SegmentLength)
        {
            using PlatformFile? file = store.Directory.Open(StoreNames.Segment(start), FileOpening.Read);
            if (file is null)
                break;
            DateTimeOffset written = file.LastWritten;
            if (written < time)
                found = start + store.Meta.SegmentLength;
            // A time to come is that of a clock that was wrong; the segments after it tell whether this one is older.
            else if (written <= now)
                break;
        }

        return found;
    }

    public void Dispose() => _trimmer.Dispose();

    /// <summary>Shows every process that retention fails, or that it succeeds again.</summary>
    private void Show(string? failure)
    {
        // A handler may have closed the queue: the page is unmapped. And a look that the queue's end has ended has not failed.
        if (store.IsClosing)
            return;
        FailureWords shown = store.Control.RetentionFailure;
        if (failure == _failure && shown.IsSet == failure is not null)
            return;
        if (_failure is null)
            _failingSince = store.Settings.TimeProvider.GetUtcNow();
        _failure = failure;
        if (failure is null)
            shown.Clear();
        else
            shown.Write(_failingSince, failure);
    }

    /// <summary>Returns what keeps it from applying the policy, if it can continue beside it; null when nothing does.</summary>
    private string? Look()
    {
        store.ThrowIfReplaced();
        if (ReadPolicy() is not { } policy)
            return null;
        Measure(policy);
        store.Spares.NoteIfFull();
        // What waits to be used again takes the room that the disk is short of.
        bool isShort = policy.MinFreeBytes is { } least && store.Directory.FreeBytes < least;
        bool recycles = MayRecycle(policy) && !isShort;
        KeepSpares(recycles && _sparesMax > 0);
        if (!policy.HasLimit)
            return null;
        RetentionPlan plan = RetentionPlan.Make(store.Directory, store.Meta, policy, store.LogStart, store.WrittenTo,
            store.Settings.TimeProvider.GetUtcNow());
        if (plan.Limit > store.LogStart)
            _ = Remove(plan.Goal, policy, recycles);
        // Also what others have removed.
        store.Window.DropRemoved();
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
        long? logStart = _trimmer.Remove(before, policy, recycles ? _sparesMax : 0);
        // The temporary names of a queue with producers are its own.
        if (recycles && store.Producers.Slot is not null)
            _trimmer.UseSpares(_sparesMax);
        return logStart;
    }

    /// <summary>Tells of each segment once, without any lock of the store; returns up to where all were told of.</summary>
    private long Announce(long before, RetentionOptions policy)
    {
        if (deleting is null)
            return before;
        foreach (long start in _trimmer.FindRemovable(before, policy))
        {
            long end = start + store.Meta.SegmentLength;
            if (start < _announcedTo)
                continue;
            deleting(new SegmentDeletingEventArgs(
                System.IO.Path.Combine(store.Path, StoreNames.Segment(start)), start, end));
            // The handler may have closed the queue.
            PublicNames.ThrowIfDisposed(store.HasEnded, PublicNames.Queue);
            _announcedTo = end;
        }

        return Math.Min(before, _announcedTo);
    }

    /// <summary>How many files shall wait to be used again: it follows the speed of the producers.</summary>
    private void Measure(RetentionOptions policy)
    {
        long segmentLength = store.Meta.SegmentLength;
        // Two less, for the segment after the tail's and for the small files.
        long sparesLimit = Math.Max(1, (Math.Min(SparesBytesMax, policy.MaxBytes ?? long.MaxValue) / segmentLength) - 2);
        long kept = policy is { Recycle: true, MaxBytes: { } most } ? (most / segmentLength) + sparesLimit : long.MaxValue;
        store.KeepsLittle = kept <= KeptLittle / segmentLength;
        store.Window.IdleMax = store.KeepsLittle && kept <= MappedMax && MayRecycle(policy) ? (int)kept : 0;
        store.Spares.FilesMax = store.Window.IdleMax > 0
            ? (int)Math.Max(kept + 1, (policy.MaxBytes!.Value * TakenMax / segmentLength) - 1)
            : int.MaxValue;
        TimeSpan elapsed = Stopwatch.GetElapsedTime(_measuredAt);
        long tail = store.WrittenTo;
        long segments = (tail - _measuredTail) / segmentLength;
        if (elapsed < LookInterval || (segments == 0 && elapsed < SparesIdle))
            return;
        int least = segments > 0 ? 1 : 0;
        _sparesMax = (int)Math.Clamp(Math.Ceiling(segments * (SparesLast / elapsed)), least, sparesLimit);
        (_measuredAt, _measuredTail) = (Stopwatch.GetTimestamp(), tail);
    }

    /// <summary>Portable has no marks, nor does it tell one file from another.</summary>
    private bool MayRecycle(RetentionOptions policy) => policy.Recycle && !store.Os.IsPortable && !store.HasPollers;

    private RetentionOptions? ReadPolicy() => RetentionFile.Read(store.Directory, store.Meta.StoreId);
}
