using System.Diagnostics;

namespace MappedFileQueues.Segments;

/// <summary>
/// Whether the pages ahead of the tail are to be cached one by one, or in the pieces that the system takes by itself (up to
/// 2 MiB, in a third of the time). A page that is part of a piece takes all of it to the disk with the next flush. So they come
/// one by one while flushes are waited for, and for a slow producer, whose every flush, one a second say, would write a piece
/// for a few messages. A fast one fills the pieces before they are written. What was measured: docs/BENCHMARKS.md, `durable_1`.
/// </summary>
/// <param name="awaitsFlushes">They are expected from the start.</param>
internal sealed class PageDemand(bool awaitsFlushes)
{
    /// <summary>Flushes that nobody has waited for in this time need not be quick.</summary>
    private static readonly TimeSpan FlushMemory = TimeSpan.FromSeconds(1);

    /// <summary>Up to so many bytes a second a producer is slow; a piece is an eighth of that.</summary>
    private const double SlowMax = 16 * 1024 * 1024;

    /// <summary>One alone may be a pause before a burst.</summary>
    private const int SlowNoticesMin = 2;

    private long _flushAwaited;
    private long _noticed;
    private long _tail;
    private volatile int _slowNotices;
    private volatile bool _flushNoticed = awaitsFlushes;

    /// <summary>Somebody waits for a flush. Any thread.</summary>
    public void NoticeFlush()
    {
        if (!_flushNoticed)
            _flushNoticed = true;
    }

    /// <summary>How far a producer is by now; how fast it is is what it has moved by since the last time. Any thread.</summary>
    public void NoticeTail(long tail)
    {
        long now = Stopwatch.GetTimestamp();
        // P23 relaxed: hints; where threads mix theirs up, the next notice puts it right.
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
    /// Whether somebody has waited for a flush within the last second, or since this was asked last. By the preparer alone.
    /// </summary>
    public bool AwaitsFlushes()
    {
        long now = Stopwatch.GetTimestamp();
        if (_flushNoticed)
            Volatile.Write(ref _flushAwaited, now); // P23 relaxed: a hint.
        _flushNoticed = false;
        return IsLately(_flushAwaited, now);
    }

    /// <summary>As <see cref="WantsSinglePages"/>, for others than the preparer: a look that changes nothing.</summary>
    // P23 relaxed: hints.
    public bool MayWantSinglePages => _flushNoticed || _slowNotices == SlowNoticesMin
        || IsLately(Volatile.Read(ref _flushAwaited), Stopwatch.GetTimestamp());

    /// <summary>Whether pages are to be cached one by one. By the preparer alone.</summary>
    public bool WantsSinglePages() => AwaitsFlushes() || _slowNotices == SlowNoticesMin;

    private static bool IsLately(long awaited, long now) =>
        awaited != 0 && Stopwatch.GetElapsedTime(awaited, now) < FlushMemory;
}
