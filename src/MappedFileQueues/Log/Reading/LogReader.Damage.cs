using System.Diagnostics;
using MappedFileQueues.Memory;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Reading;

/// <summary>
/// Reading after damage, for a reader with a <see cref="DamageSkipper"/>. All damage appears as an exception of the slow path and
/// is handled here, so the fast paths know nothing about it. Where nothing after the damage is certain yet, the reader behaves as
/// at the end of the log, and a waiting caller looks again from time to time.
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

    /// <summary>The damage at which this reader stands, because nothing after it is certain yet; null elsewhere.</summary>
    public QueueCorruptException? DamageAhead => _stalledAt >= 0 && _stalledAt == Offset ? _stalledBy : null;

    /// <summary>At damage with nothing certain after it, and too early to look again.</summary>
    private bool IsStalled => _stalledAt >= 0 && _stalledAt == Offset && Stopwatch.GetTimestamp() < _lookAgainAt;

    private ReadStatus ReadOverDamage(out byte* payload, out int length)
    {
        while (true)
        {
            try
            {
                return Read(out payload, out length);
            }
            catch (QueueCorruptException damage)
            {
                if (TryGoBehind(damage))
                    continue;
                if (!log.MayGrow)
                    throw;
                payload = null;
                length = 0;
                return ReadStatus.Empty;
            }
        }
    }

    /// <summary>Damage is something to act on, unless the reader is stalled at it.</summary>
    private bool HasSomethingOrDamage()
    {
        if (IsStalled)
            return false;
        try
        {
            return IsSomethingHere();
        }
        catch (QueueCorruptException)
        {
            return true;
        }
    }

    private bool TryGoBehind(QueueCorruptException damage)
    {
        long began = Stopwatch.GetTimestamp();
        long at = Offset;
        long start = log.Window.StartOf(at);
        SegmentMapping? segment = _segment is { } here && here.Start == start ? here : null;
        // P18 acquire: everything before it is on disk; pairs with P18 full in FlushRound.
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
            Report(damage, at, next);
        return true;
    }

    /// <summary>
    /// Calls the user's handler outside the marked call, so that it may use and dispose the consumer. An exception from it ends
    /// the call; the position is already past the damage.
    /// </summary>
    private void Report(QueueCorruptException damage, long at, long next)
    {
        EndCall();
        try
        {
            skipper!.Report(damage, at, next);
        }
        finally
        {
            BeginLongCall();
        }
    }
}
