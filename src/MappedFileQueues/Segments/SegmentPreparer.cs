using MappedFileQueues.Memory;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Segments;

/// <summary>
/// Keeps blocks and touched pages ready ahead of the tail, on a thread of its own, while a queue has producers. A page fault
/// costs more than ten messages, an allocation of blocks more, a new segment more still: none of these should happen in an
/// append.
/// <para>The lead starts at 256 KiB and doubles with every notice up to `PrepareAhead`, so that a store with little traffic
/// costs little. When a producer reaches the end of the ready room, the lead grows further, to 64 MiB. Failures of any kind are
/// not reported here: they would end the process, and the producer that needs the room meets the same error in its own
/// call.</para>
/// <para>Where flushes must be quick it also syncs what it has touched. Touching dirties pages without changing a byte, so it is
/// safe beside producers that already store there. The sync turns allocated blocks into written ones: a later flush needs no
/// commit of the file system's journal.</para>
/// </summary>
/// <param name="maker">Makes segments.</param>
/// <param name="allocator">Gives them blocks.</param>
/// <param name="window">Maps them.</param>
/// <param name="prepareAhead">How far ahead of the tail.</param>
/// <param name="lookWhileWaiting">Called in steps of a caller's preparation; throws when the queue ends.</param>
/// <param name="sync">Syncs the segment that starts there; null where that is left to the flushes.</param>
internal sealed class SegmentPreparer(
    SegmentMaker maker,
    BlockAllocator allocator,
    SegmentWindow window,
    long prepareAhead,
    Action lookWhileWaiting,
    Action<long>? sync) : IDisposable
{
    private const long LeadMax = 64L * 1024 * 1024;

    /// <summary>Tiny segments are made many at once, but only so many.</summary>
    private const int SegmentsAheadMax = 32;

    /// <summary>A step takes up to 9 ms.</summary>
    private static readonly TimeSpan ReleaseWaitMax = TimeSpan.FromMilliseconds(50);

    private readonly PageDemand _demand = new(awaitsFlushes: sync is not null);
    private readonly Lock _work = new();
    private readonly Dictionary<long, SegmentMapping> _held = [];
    private readonly AutoResetEvent _noticed = new(false);
    private readonly Lock _starting = new();
    private volatile Thread? _thread;
    private long _tail;
    private long _lead = LeadFirst;
    private volatile bool _stopping;

    private static long LeadFirst => SegmentMaker.FirstBlocks;

    private Action Look => field ??= ThrowIfStopping;

    /// <summary>Reports how far the tail has come. Appenders call it every 256 KiB; it never waits.</summary>
    /// <param name="tail">The offset that the tail has reached.</param>
    /// <param name="ready">Up to here there are blocks.</param>
    public void Notice(long tail, long ready)
    {
        _demand.NoticeTail(tail);
        // P23 relaxed: a hint; a raise that is lost or made twice does no harm.
        long lead = Volatile.Read(ref _lead);
        if (ready - tail > lead / 2)
            return;
        // A producer that reaches the end of the ready room is faster than the lead allows for.
        long limit = ready <= tail + LeadFirst ? Math.Max(LeadMax, prepareAhead) : prepareAhead;
        if (lead < limit)
            // P23 relaxed: as above.
            Volatile.Write(ref _lead, Math.Min(limit, lead * 2));
        // P23 relaxed: only ever raised.
        SharedWord.RaiseTo(ref _tail, tail);
        if (ProtocolSteps.Background is { } background)
        {
            background(TryPrepare);
            return;
        }

        EnsureStarted();
        _noticed.Set();
    }

    /// <summary>A caller waits for a flush: the next room is prepared for more of these.</summary>
    public void NoticeFlush() => _demand.NoticeFlush();

    /// <inheritdoc cref="PageDemand.MayWantSinglePages"/>
    public bool MayWantSinglePages => _demand.MayWantSinglePages;

    /// <summary>Starts the thread. Where it syncs, it prepares the first room before any producer has asked for it.</summary>
    public void Begin(long tail)
    {
        EnsureStarted();
        if (sync is null)
            return;
        // P23 relaxed: only ever raised.
        SharedWord.RaiseTo(ref _tail, tail);
        _noticed.Set();
    }

    /// <summary>
    /// Allocates and touches everything from <paramref name="tail"/> to <paramref name="target"/> on the calling thread, or less
    /// when segments cannot grow that far here. In steps: the end of the queue, which ends this call, waits for one at most.
    /// </summary>
    public void PrepareTo(long tail, long target)
    {
        bool goesOn = true;
        for (long from = tail; goesOn && from < target;)
        {
            lookWhileWaiting();
            long to = Math.Min(target, from + Math.Min(LeadMax, window.SegmentLength));
            lock (_work)
                goesOn = PrepareTo(from, to, _demand.AwaitsFlushes());
            from = to;
        }
    }

    /// <summary>
    /// Releases the segments that end at or below an offset. Writing back a page that a process has mapped costs an interrupt to
    /// each CPU that runs the process; a segment that no process has mapped costs none. Skipped while the preparer does
    /// something longer than its usual steps: flushes must not wait for what it waits for.
    /// </summary>
    public void ReleaseBelow(long offset)
    {
        if (!_work.TryEnter(ReleaseWaitMax))
            return;
        try
        {
            LetGoBelow(offset);
        }
        finally
        {
            _work.Exit();
        }
    }

    /// <summary>Ends the thread and releases its segments.</summary>
    public void Dispose()
    {
        _stopping = true;
        _noticed.Set();
        lock (_starting)
            _thread?.Join();
        lock (_work)
            LetGoBelow(long.MaxValue);
        _noticed.Dispose();
    }

    /// <summary>Where the system gives no thread, producers make room themselves; the next notice tries again.</summary>
    private void EnsureStarted()
    {
        if (_thread is not null || ProtocolSteps.Background is not null)
            return;
        lock (_starting)
        {
            if (_thread is not null || _stopping)
                return;
            try
            {
                _thread = BackgroundThread.Start(Run, "preparer");
            }
            catch (MappedFileQueueException)
            {
                // A slower append is better than none.
            }
        }
    }

    private void Run()
    {
        while (true)
        {
            _noticed.WaitOne();
            if (_stopping)
                return;
            TryPrepare();
        }
    }

    private void TryPrepare()
    {
        try
        {
            Prepare();
        }
        catch (Exception error) when (error is not OutOfMemoryException)
        {
            // For example a full disk: the producer that needs the room tries again and gets the exception in its own call.
        }
    }

    private void Prepare()
    {
        // P23 relaxed: hints; the shared words are checked before anything is done.
        long tail = Volatile.Read(ref _tail);
        long lead = Math.Min(Volatile.Read(ref _lead), SegmentsAheadMax * window.SegmentLength);
        long end = tail + lead;
        // In steps, so that what is ready can be used while the next step is under way.
        bool goesOn = true;
        for (long target = tail; goesOn && target < end && !_stopping;)
        {
            target = Math.Min(end, target + BlockAllocator.StepMax);
            lock (_work)
                goesOn = PrepareTo(tail, target, _demand.WantsSinglePages());
        }

        lock (_work)
            LetGoBelow(tail);
    }

    /// <summary>Under the lock.</summary>
    private bool PrepareTo(long tail, long target, bool singly)
    {
        if (_stopping)
            return false;
        bool isAll = allocator.TryEnsureAllocated(target, Look);
        if (!isAll)
            target = Math.Min(target, allocator.Allocated);
        for (long start = window.StartOf(tail); start < target; start += window.SegmentLength)
        {
            SegmentMapping? mapping = Hold(start);
            if (mapping is null)
                return false;
            maker.EnsureDirectoryFlushed(start);
            bool touched = mapping.TouchTo(Math.Max(0, tail - start), Math.Min(target - start, mapping.Usable), singly);
            // The blocks of a recycled segment were written before.
            if (touched && !mapping.IsRecycled)
                sync?.Invoke(start);
        }

        return isAll;
    }

    private void ThrowIfStopping() => ObjectDisposedException.ThrowIf(_stopping, this);

    private SegmentMapping? Hold(long start)
    {
        if (_held.TryGetValue(start, out SegmentMapping? mapping))
            return mapping;
        mapping = window.TryAcquire(start);
        if (mapping is not null)
            _held.Add(start, mapping);
        return mapping;
    }

    private void LetGoBelow(long tail)
    {
        List<SegmentMapping> left = [.. _held.Values.Where(held => held.End <= tail || tail == long.MaxValue)];
        foreach (SegmentMapping mapping in left)
        {
            _held.Remove(mapping.Start);
            window.Release(mapping);
        }
    }
}
