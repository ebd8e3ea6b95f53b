using System.Diagnostics;
using System.Runtime.CompilerServices;

namespace MappedFileQueues.Files.Appending;

/// <summary>
/// Where the next bytes go: a place in the active buffer, or nowhere while it is closed. Writers claim room here and copy.
/// <para>Claims are made under a lock of one word, and short writes are copied under it too: that is one interlocked operation
/// for a line, where a claim and the message that its copy is done would be two. Longer ones are copied outside of it, and
/// counted by their buffer.</para>
/// <para>The cursor is one object that the stream knows, and not a part of each buffer: each reference that is followed on the
/// way to the lock costs the time of a load (1.2 ns, where a line of 100 bytes takes 7).</para>
/// </summary>
internal sealed unsafe class AppendCursor
{
    /// <summary>Up to here a copy takes less time than telling that it is done.</summary>
    private const int ShortLength = 1024;

    private const int CacheLineLength = 64;

    /// <summary>1 while somebody is inside.</summary>
    private int _lock;

    // These change under the lock; null while closed. The next byte may lie behind what is fetched, after a long write.
    private volatile byte* _next;
    private byte* _fetchedEnd;
    private byte* _end;

    /// <summary>Changes under the lock and under the pipe's gate: so either is enough to read it.</summary>
    private AppendBuffer? _buffer;

    /// <summary>
    /// Copies into the buffer, in one piece, if that is done at once: false when the source is long or empty, when somebody else
    /// is inside, while it is closed, and where the buffer has to be fetched or is full. There is one call in it, and behind that
    /// only the lock is needed: each register that is saved, and each local that is cleared, is a store, and the next call's
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
            Leave();
            return false;
        }

        _next = start + source.Length;
        source.CopyTo(new Span<byte>(start, source.Length));
        Leave();
        return true;
    }

    /// <summary>
    /// Copies into the buffer, in one piece, and gives the place behind it; false when there is no room, or it is closed.
    /// </summary>
    public bool TryAppend(ReadOnlySpan<byte> source, out long end)
    {
        if (source.Length > ShortLength)
            return TryAppendLong(source, out end);
        Enter();
        byte* start = Claim(source.Length);
        end = 0;
        if (start != null)
        {
            if (_next > _fetchedEnd)
                Fetch(start);
            source.CopyTo(new Span<byte>(start, source.Length));
            end = _buffer!.PlaceOf(_next);
        }

        Leave();
        return start != null;
    }

    /// <summary>
    /// Claims room, in the buffer that it returns, to be filled by <see cref="AppendBuffer.Fill"/>; null when there is none.
    /// </summary>
    public AppendBuffer? TryClaim(int length, out byte* start)
    {
        Enter();
        start = Claim(length);
        AppendBuffer? buffer = start != null ? _buffer : null;
        buffer?.BeginCopy();
        Leave();
        return buffer;
    }

    /// <summary>
    /// Under the gate: lets writers into the buffer; what lies below is filled, or claimed by whoever opens it.
    /// </summary>
    public void Open(AppendBuffer buffer, int reserved)
    {
        Enter();
        _buffer = buffer;
        _next = _fetchedEnd = buffer.Start + reserved;
        _end = buffer.Start + buffer.Limit;
        Leave();
    }

    /// <summary>
    /// Under the gate: ends the claiming and tells the buffer what it holds. Closed already, it does nothing.
    /// </summary>
    public void Close()
    {
        Enter();
        if (_buffer is { } buffer)
            buffer.End = (int)(_next - buffer.Start);
        _buffer = null;
        _next = _fetchedEnd = _end = null;
        Leave();
    }

    /// <summary>Under the gate: what the active buffer holds, with what is being copied.</summary>
    public int EndOf(AppendBuffer active)
    {
        Debug.Assert(_buffer is null || _buffer == active);
        return _buffer is null ? active.End : (int)(_next - active.Start);
    }

    /// <summary>
    /// Whoever is waited for needs nanoseconds, or was put aside and needs the processor: so this gives it away first. And then
    /// it stays out of the way for a microsecond, in which one thread alone appends a hundred lines; two that take turns at the
    /// word append ten. Four threads on two processors: 16 ns a line, 27 with a wait of 4 us that keeps the processor.
    /// </summary>
    public static void WaitATurn(int turn)
    {
        // A thread of lower priority gets nothing until this one sleeps. A sleep takes a thousand times as long as a turn.
        const int TurnsWithoutSleep = 1000;
        if (turn >= TurnsWithoutSleep)
        {
            Thread.Sleep(1);
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
    /// In the lock: takes what comes next of the buffer away from the processor that wrote it out, by a store into each cache
    /// line, which go on side by side. Line by line, with an interlocked operation in between, each would be waited for: a line
    /// of 100 bytes takes 20 ns with buffers of 128 KiB, where it took 38 (docs/BENCHMARKS.md). Where the memory is near, the
    /// processor fetches as well by itself, and is left to it for a while. Where the barrier does not wait for the stores, all
    /// seems near.
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

    private void Enter()
    {
        if (Interlocked.CompareExchange(ref _lock, 1, 0) != 0)
            EnterSlowly();
    }

    private void Leave() => Volatile.Write(ref _lock, 0);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void EnterSlowly()
    {
        int turns = 0;
        do
        {
            WaitATurn(turns++);
        }
        while (Volatile.Read(ref _lock) != 0 || Interlocked.CompareExchange(ref _lock, 1, 0) != 0);
    }
}
