using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Files;

/// <summary>
/// One of the two buffers of a stream, in native memory, aligned to blocks. Its life, again and again: it is opened with a place
/// in the file; writers claim room in it and copy; it is sealed, which ends the claiming; whoever writes it to the file waits
/// until every claimed byte is copied.
/// <para>Claims are made under a lock of one word, and short writes are copied under it too: that is one interlocked operation
/// for a line, where a claim and the message that its copy is done would be two. Longer ones are copied outside of it, and
/// counted.</para>
/// <para>What leaves a full buffer ends at a multiple of half its length in the file, and what was claimed beyond that is carried
/// over: for a write of 256 KiB at such a place the system takes a few large pieces of memory, at any other many small ones (1.0
/// against 0.8 us for 4 KiB; measured, ext4, Linux 6.18).</para>
/// </summary>
internal sealed unsafe class AppendBuffer
{
    private const int Sealed = -1;

    /// <summary>Up to here a copy takes less time than telling that it is done.</summary>
    private const int ShortLength = 1024;

    private readonly int _length;
    private readonly int _alignment;
    private byte* _start;

    /// <summary>1 while somebody is inside.</summary>
    private int _lock;

    // These change under the lock, or while the buffer is sealed.
    private int _reserved = Sealed;
    private int _limit;
    private int _alignedEnd;

    /// <summary>So many claims are being copied outside of the lock.</summary>
    private int _copying;

    /// <param name="length">What one write to the file has at most, whole blocks; one block more is allocated.</param>
    public AppendBuffer(int length)
    {
        _length = length;
        _alignment = length / 2 / AppendFileOptions.BlockLength * AppendFileOptions.BlockLength;
        _start = (byte*)NativeMemory.AlignedAlloc((nuint)(length + AppendFileOptions.BlockLength), AppendFileOptions.BlockLength);
    }

    /// <summary>
    /// The place of the first byte, counted from the opening of the stream; below 0 for what stood there before.
    /// </summary>
    public long Origin { get; private set; }

    /// <summary>The position of the first byte in the file, a multiple of the block length.</summary>
    public long FilePosition { get; private set; }

    /// <summary>The bytes it holds, once sealed.</summary>
    public int End { get; private set; }

    /// <summary>How many of its last bytes, once sealed, the next buffer begins with and writes.</summary>
    public int Carried => EndsFile ? 0 : End >= _alignedEnd ? End - _alignedEnd : End % AppendFileOptions.BlockLength;

    /// <summary>Behind its bytes the file is done, and the next buffer begins the next file.</summary>
    public bool EndsFile { get; private set; }

    /// <summary>What is claimed so far; negative while sealed.</summary>
    public int Reserved => Volatile.Read(ref _reserved);

    /// <summary>
    /// Copies into the buffer, in one piece, and gives the place behind it; false when there is no room, or it is sealed.
    /// </summary>
    public bool TryAppend(ReadOnlySpan<byte> source, out long end)
    {
        if (source.Length > ShortLength)
            return TryAppendLong(source, out end);
        Enter();
        int start = Claim(source.Length);
        end = Origin + start + source.Length;
        if (start >= 0)
            source.CopyTo(new Span<byte>(_start + start, source.Length));
        Leave();
        return start >= 0;
    }

    /// <summary>Claims room to be filled by <see cref="Fill"/>; the place of the first byte, or -1 when there is none.</summary>
    public int TryClaim(int length)
    {
        Enter();
        int start = Claim(length);
        if (start >= 0)
            Interlocked.Increment(ref _copying);
        Leave();
        return start;
    }

    /// <summary>
    /// Copies into claimed room, tells that it is done, and gives the place behind it; after this the buffer must not be touched.
    /// </summary>
    public long Fill(int start, ReadOnlySpan<byte> source)
    {
        long end = Origin + start + source.Length;
        source.CopyTo(new Span<byte>(_start + start, source.Length));
        Interlocked.Decrement(ref _copying);
        return end;
    }

    /// <summary>The first bytes.</summary>
    public Span<byte> First(int length) => new(_start, length);

    /// <summary>
    /// Places the buffer, still sealed. Its first <paramref name="carried"/> bytes are those of the last block that began before
    /// it: whoever drains the buffer before it copies them here.
    /// </summary>
    public void Begin(long origin, long filePosition, int carried, long fileLengthMax)
    {
        Debug.Assert(Reserved < 0 && filePosition % AppendFileOptions.BlockLength == 0);
        (Origin, FilePosition, EndsFile, End) = (origin, filePosition, false, carried);
        _alignedEnd = (int)((filePosition + _length) / _alignment * _alignment - filePosition);
        _limit = (int)Math.Clamp(fileLengthMax - filePosition, 0, _alignedEnd + AppendFileOptions.BlockLength);
    }

    /// <summary>Lets writers in; what lies below is filled, or claimed by whoever opens it.</summary>
    public void Open(int reserved) => SetReserved(reserved);

    /// <summary>Ends the claiming.</summary>
    public void Seal(bool endsFile)
    {
        int old = SetReserved(Sealed);
        if (old >= 0)
            End = old;
        EndsFile = endsFile;
    }

    /// <summary>
    /// Copies behind what a sealed buffer holds, for the one long write that it was sealed for; returns how much fitted.
    /// </summary>
    public int FillSealed(ReadOnlySpan<byte> source)
    {
        int start = End;
        int count = Math.Clamp(_alignedEnd - start, 0, source.Length);
        End = start + count;
        source[..count].CopyTo(new Span<byte>(_start + start, count));
        return count;
    }

    /// <summary>
    /// Waits until every claimed byte is copied: a writer that has claimed is at it, or was put aside for a moment.
    /// </summary>
    public void WaitForCopies()
    {
        for (int turns = 0; Volatile.Read(ref _copying) != 0; turns++)
            WaitATurn(turns);
    }

    /// <summary>Gives the memory back. Sealed, and every copy done.</summary>
    public void Free()
    {
        NativeMemory.AlignedFree(_start);
        _start = null;
    }

    /// <summary>
    /// Whoever is waited for needs nanoseconds, or was put aside and needs the processor: so this gives it away first. And then
    /// it stays out of the way for a microsecond, in which one thread alone appends a hundred lines; two that take turns at the
    /// word append ten. Four threads on two processors: 16 ns a line, 27 with a wait of 4 us that keeps the processor.
    /// </summary>
    private static void WaitATurn(int turn)
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
        int start = TryClaim(source.Length);
        end = start >= 0 ? Fill(start, source) : 0;
        return start >= 0;
    }

    /// <summary>In the lock.</summary>
    private int Claim(int length)
    {
        int start = _reserved;
        if (start < 0 || length > _limit - start)
            return -1;
        _reserved = start + length;
        return start;
    }

    private int SetReserved(int value)
    {
        Enter();
        int old = _reserved;
        _reserved = value;
        Leave();
        return old;
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
