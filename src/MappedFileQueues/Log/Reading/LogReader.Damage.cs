using System.Diagnostics;
using MappedFileQueues.Memory;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Reading;

/// <summary>
/// Reading after damage, for a reader with a <see cref="DamageSkipper"/>, and after messages that were removed, for one with a
/// <see cref="GapSkipper"/>. Both appear as exceptions of the slow path and are handled here, so the fast paths know nothing
/// about them. Where nothing after the damage is certain yet, the reader behaves as at the end of the log, and a waiting caller
/// looks again from time to time.
/// </summary>
internal sealed unsafe partial class LogReader
{
    /// <summary>
    /// A search of the rest of a segment may take milliseconds, so a waiting caller spends at most one part in this many on it.
    /// </summary>
    private const int LookShare = 8;

    private long _stalledAt = -1;
    private long _lookAgainAt;
    private QueueCorruptException? _stalledBy;

    /// <summary>The damage where this reader stopped, because nothing after it is certain yet; null elsewhere.</summary>
    public QueueCorruptException? DamageAhead => _stalledAt >= 0 && _stalledAt == Offset ? _stalledBy : null;

    /// <summary>At damage with nothing certain after it, and too early to look again.</summary>
    private bool IsStalled => _stalledAt >= 0 && _stalledAt == Offset && Stopwatch.GetTimestamp() < _lookAgainAt;

    /// <summary>True for a reader that steps over messages that were removed.</summary>
    public bool SkipsGaps => gaps is not null;

    private bool Skips => skipper is not null || gaps is not null;

    private ReadStatus ReadOver(out byte* payload, out int length)
    {
        while (true)
        {
            try
            {
                return Read(out payload, out length);
            }
            catch (OffsetOutOfRangeException) when (gaps is not null)
            {
                SkipGap(gaps);
            }
            catch (QueueCorruptException damage) when (skipper is not null)
            {
                if (TryStepOver(damage))
                    continue;
                if (!log.MayGrow)
                    throw;
                payload = null;
                length = 0;
                return ReadStatus.Empty;
            }
        }
    }

    /// <summary>Damage is something to act on, unless the reader is stalled at it; so is what was removed.</summary>
    private bool HasSomethingOrNeedsToSkip()
    {
        if (IsStalled)
            return false;
        try
        {
            return IsSomethingHere();
        }
        catch (Exception error) when ((error is QueueCorruptException && skipper is not null)
            || (error is OffsetOutOfRangeException && gaps is not null))
        {
            return true;
        }
    }

    /// <summary>Like <see cref="TryReachHeader"/>; false where the next read steps over what was removed.</summary>
    private bool TryReachHeaderOrGap()
    {
        try
        {
            return TryReachHeader(out _);
        }
        catch (OffsetOutOfRangeException) when (gaps is not null)
        {
            return false;
        }
    }

    private void SkipGap(GapSkipper gap)
    {
        long at = Offset;
        do
            MoveTo(gap.FindStart());
        while (!gap.TryStore(Offset));
        if (gap.Report is not { } report)
            return;
        long next = Offset;
        Report(() => report(at, next));
    }

    private bool TryStepOver(QueueCorruptException damage)
    {
        long began = Stopwatch.GetTimestamp();
        long at = Offset;
        long start = log.Window.StartOf(at);
        SegmentMapping? segment = _segment is { } here && here.Start == start ? here : null;
        // P18 acquire: everything before it is on disk; pairs with P18 full in FlushEngine.
        long visible = confirmed == null ? long.MaxValue : SharedWord.ReadAcquire(confirmed);
        long next = skipper!.FindWayOn(at, segment, visible);
        if (next <= at)
        {
            long now = Stopwatch.GetTimestamp();
            _stalledAt = at;
            _stalledBy = damage;
            _lookAgainAt = now + ((now - began) * LookShare);
            return false;
        }

        MoveTo(next);
        if (skipper.Reports)
            Report(() => skipper.Report(damage, at, next));
        return true;
    }

    /// <summary>
    /// Calls the user's handler outside the marked call, so that it may use and dispose the consumer. An exception from it ends
    /// the call; the position is already after what is reported.
    /// </summary>
    private void Report(Action handler)
    {
        EndCall();
        try
        {
            handler();
        }
        finally
        {
            BeginLongCall();
        }

        // The handler's own asynchronous call waits and reads through this reader. After a Dispose the next step throws.
        if (IsBarred && !IsClosed)
            throw AsyncWaiter.AlreadyWaiting();
    }
}
