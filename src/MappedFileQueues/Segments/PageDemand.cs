using System.Diagnostics;

namespace MappedFileQueues.Segments;

/// <summary>
/// Decides whether the pages ahead of the tail are cached one by one, or in the pieces that the system chooses itself (up to 2
/// MiB, in a third of the time).
/// <para>A page that is part of a piece takes the whole piece to the disk with the next flush. So pages are cached one by one
/// while callers wait for flushes, and for a slow producer: each of its flushes, about one a second, would write a piece for a
/// few messages. A fast producer fills the pieces before they are written. Measurements: docs/BENCHMARKS.md, `durable_1`.</para>
/// </summary>
/// <param name="awaitsFlushes">Callers that wait for flushes are expected from the start.</param>
internal sealed class PageDemand(bool awaitsFlushes)
{
    /// <summary>When no caller has waited for a flush for this long, flushes need not be quick.</summary>
    private static readonly TimeSpan FlushMemory = TimeSpan.FromSeconds(1);

    /// <summary>Up to this many bytes a second a producer is slow; a piece is an eighth of that.</summary>
    private const double SlowMax = 16 * 1024 * 1024;

    /// <summary>A single slow notice may be a pause before a burst.</summary>
    private const int SlowNoticesMin = 2;

    private long _flushAwaited;
    private long _noticed;
    private long _tail;
    private volatile int _slowNotices;
    private volatile bool _flushNoticed = awaitsFlushes;

    /// <summary>A caller waits for a flush. Any thread.</summary>
    public void NoticeFlush()
    {
        if (!_flushNoticed)
            _flushNoticed = true;
    }

    /// <summary>Notes how far a producer has come; the distance since the last notice gives its speed. Any thread.</summary>
    public void NoticeTail(long tail)
    {
        long now = Stopwatch.GetTimestamp();
        // P23 relaxed: hints; where threads mix theirs up, the next notice corrects it.
        long noticed = Volatile.Read(ref _noticed);
        long moved = tail - Volatile.Read(ref _tail); // P23 relaxed: as above.
        if (moved <= 0)
            return;
        bool isSlow = noticed != 0 && moved < SlowMax * Stopwatch.GetElapsedTime(noticed, now).TotalSeconds;
        _slowNotices = isSlow ? Math.Min(_slowNotices + 1, SlowNoticesMin) : 0;
        Volatile.Write(ref _noticed, now); // P23 relaxed: as above.
        Volatile.Write(ref _tail, tail); // P23 relaxed: as above.
    }

    /// <summary>
    /// Whether a caller has waited for a flush within the last second, or since the last call. Only the preparer calls it.
    /// </summary>
    public bool AwaitsFlushes()
    {
        long now = Stopwatch.GetTimestamp();
        if (_flushNoticed)
            Volatile.Write(ref _flushAwaited, now); // P23 relaxed: a hint.
        _flushNoticed = false;
        return IsLately(_flushAwaited, now);
    }

    /// <summary>As <see cref="WantsSinglePages"/>, for callers other than the preparer; changes nothing.</summary>
    // P23 relaxed: hints.
    public bool MayWantSinglePages => _flushNoticed || _slowNotices == SlowNoticesMin
        || IsLately(Volatile.Read(ref _flushAwaited), Stopwatch.GetTimestamp());

    /// <summary>Whether pages should be cached one by one. Only the preparer calls it.</summary>
    public bool WantsSinglePages() => AwaitsFlushes() || _slowNotices == SlowNoticesMin;

    private static bool IsLately(long awaited, long now) =>
        awaited != 0 && Stopwatch.GetElapsedTime(awaited, now) < FlushMemory;
}
