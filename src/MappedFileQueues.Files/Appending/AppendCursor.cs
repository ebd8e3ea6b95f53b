using System.Diagnostics;
using System.Runtime.CompilerServices;

namespace MappedFileQueues.Files.Appending;

/// <summary>
/// Where the next bytes go: a place in the active buffer, or nowhere while it is closed. Writers claim room here and copy.
/// <para>Claims are made under a lock of one word, and short writes are copied under it too: that is one interlocked operation
/// for a line, where a claim and a report of its copy would be two. Longer writes are copied outside of the lock, and their
/// buffer counts them.</para>
/// <para>The cursor is one object that the stream knows, and not a part of each buffer: each reference on the way to the lock
/// costs the time of a load (1.2 ns, where a line of 100 bytes takes 7).</para>
/// </summary>
internal sealed unsafe class AppendCursor
{
    /// <summary>Up to here a copy takes less time than reporting that it is done.</summary>
    private const int ShortLength = 1024;

    private const int CacheLineLength = 64;

    /// <summary>1 while a thread holds the lock.</summary>
    private int _lock;

    // These change under the lock; null while closed. The next byte may be after what is fetched, after a long write.
    private volatile byte* _next;
    private byte* _fetchedEnd;
    private byte* _end;

    /// <summary>Changes under the lock and under the stream's gate, so either is enough to read it.</summary>
    private AppendBuffer? _buffer;

    /// <summary>
    /// Copies into the buffer, in one piece, if that is possible at once. False when the source is long or empty, when another
    /// thread has the lock, while the cursor is closed, and where the buffer has to be fetched or is full. This method makes one
    /// call, and needs only the lock after it: each saved register and each cleared local is a store, and the next call's
    /// interlocked operation waits for all of them (10 ns a line without this method).
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public bool TryAppendAtOnce(ReadOnlySpan<byte> source)
    {
        if ((uint)(source.Length - 1) >= ShortLength || Interlocked.CompareExchange(ref _lock, 1, 0) != 0)
            return false;
        byte* start = _next;
        if (source.Length > _fetchedEnd - start)
        {
            ReleaseLock();
            return false;
        }

        _next = start + source.Length;
        source.CopyTo(new Span<byte>(start, source.Length));
        ReleaseLock();
        return true;
    }

    /// <summary>
    /// Copies into the buffer, in one piece, and gives the place after it. False when there is no room, or it is closed.
    /// </summary>
    public bool TryAppend(ReadOnlySpan<byte> source, out long end)
    {
        if (source.Length > ShortLength)
            return TryAppendLong(source, out end);
        TakeLock();
        byte* start = Claim(source.Length);
        end = 0;
        if (start != null)
        {
            if (_next > _fetchedEnd)
                Fetch(start);
            source.CopyTo(new Span<byte>(start, source.Length));
            end = _buffer!.PlaceOf(_next);
        }

        ReleaseLock();
        return start != null;
    }

    /// <summary>
    /// Claims room in the buffer that it returns, which <see cref="AppendBuffer.Fill"/> fills. Null when there is none.
    /// </summary>
    public AppendBuffer? TryClaim(int length, out byte* start)
    {
        TakeLock();
        start = Claim(length);
        AppendBuffer? buffer = start != null ? _buffer : null;
        buffer?.BeginCopy();
        ReleaseLock();
        return buffer;
    }

    /// <summary>
    /// Under the gate: opens the buffer to writers. The reserved bytes are filled, or claimed by the caller.
    /// </summary>
    public void Open(AppendBuffer buffer, int reserved)
    {
        TakeLock();
        _buffer = buffer;
        _next = _fetchedEnd = buffer.Start + reserved;
        _end = buffer.Start + buffer.Limit;
        ReleaseLock();
    }

    /// <summary>
    /// Under the gate: ends claiming and tells the buffer what it holds. Does nothing when closed.
    /// </summary>
    public void Close()
    {
        TakeLock();
        if (_buffer is { } buffer)
            buffer.End = (int)(_next - buffer.Start);
        _buffer = null;
        _next = _fetchedEnd = _end = null;
        ReleaseLock();
    }

    /// <summary>Under the gate: how much the active buffer holds, including what is being copied.</summary>
    public int EndOf(AppendBuffer active)
    {
        Debug.Assert(_buffer is null || _buffer == active);
        return _buffer is null ? active.End : (int)(_next - active.Start);
    }

    /// <summary>
    /// One turn of waiting. The other thread needs nanoseconds, or was preempted and needs the processor, so this yields first.
    /// Then it stays out of the way for a microsecond, in which one thread alone appends a hundred lines, and two that take turns
    /// at the lock append ten. Four threads on two processors: 16 ns a line, 27 with a wait of 4 us that keeps the processor.
    /// </summary>
    public static void WaitATurn(int turn)
    {
        // A thread of lower priority gets no time until this one sleeps. A sleep takes a thousand times as long as a turn.
        const int TurnsWithoutSleep = 1000;
        if (turn >= TurnsWithoutSleep)
        {
            try
            {
                Thread.Sleep(1);
            }
            catch (ThreadInterruptedException)
            {
                // Others wait for what this thread does next.
            }

            return;
        }

        Thread.Yield();
        Thread.SpinWait(30);
    }

    private bool TryAppendLong(ReadOnlySpan<byte> source, out long end)
    {
        AppendBuffer? buffer = TryClaim(source.Length, out byte* start);
        end = buffer?.Fill(start, source) ?? 0;
        return buffer is not null;
    }

    /// <summary>In the lock; null when there is no room.</summary>
    private byte* Claim(int length)
    {
        byte* start = _next;
        if (start == null || length > _end - start)
            return null;
        _next = start + length;
        return start;
    }

    /// <summary>
    /// In the lock: fetches the next part of the buffer from the processor that wrote it out, by a store to each cache line.
    /// These stores overlap. With an interlocked operation between lines, each would be waited for: a line of 100 bytes takes 20
    /// ns with buffers of 128 KiB, where it took 38. Where the memory is near, the processor fetches just as well by
    /// itself, so this trusts it for a while. Where the barrier does not wait for the stores, all memory seems near.
    /// </summary>
    private void Fetch(byte* start)
    {
        const int FetchLength = 8 * 1024;
        const int TrustedLength = 64 * 1024;
        const int NanosecondsWhenNear = 3; // each cache line: 1 to 2 measured, 4 and more where fetching pays
        byte* from = start > _fetchedEnd ? start : _fetchedEnd;
        long length = Math.Min(_next + FetchLength - from, _end - from);
        long begun = Stopwatch.GetTimestamp();
        for (long i = 0; i < length; i += CacheLineLength)
            from[i] = 0;
        Interlocked.MemoryBarrier();
        double nanoseconds = Stopwatch.GetElapsedTime(begun).TotalNanoseconds;
        if (nanoseconds < NanosecondsWhenNear * length / CacheLineLength)
            length = Math.Min(length + TrustedLength, _end - from);
        _fetchedEnd = from + length;
    }

    private void TakeLock()
    {
        if (Interlocked.CompareExchange(ref _lock, 1, 0) != 0)
            TakeLockSlowly();
    }

    private void ReleaseLock() => Volatile.Write(ref _lock, 0);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void TakeLockSlowly()
    {
        int turns = 0;
        do
        {
            WaitATurn(turns++);
        }
        while (Volatile.Read(ref _lock) != 0 || Interlocked.CompareExchange(ref _lock, 1, 0) != 0);
    }
}
