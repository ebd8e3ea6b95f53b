using System.Diagnostics;
using System.Runtime.InteropServices;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Files;

/// <summary>
/// One of the two buffers of a stream, in native memory, aligned to blocks. Its life, again and again: it is opened with a place
/// in the file; writers claim room in it by compare-and-swap and copy without a lock; it is sealed, which ends the claiming;
/// whoever writes it to the file waits until every claimed byte is copied.
/// <para>The state word: the number of the life in the high half, the bytes that are claimed in the low half, negative while
/// sealed. The number is why a writer that was stopped between its look and its claim cannot succeed in a later life.</para>
/// <para>What leaves a full buffer ends at a multiple of half its length in the file, and what was claimed beyond that is carried
/// over: for a write of 256 KiB at such a place the system takes a few large pieces of memory, at any other many small ones (1.0
/// against 0.8 us for 4 KiB; measured, ext4, Linux 6.18).</para>
/// </summary>
internal sealed unsafe class AppendBuffer
{
    private const int Sealed = -1;

    private readonly int _length;
    private readonly int _alignment;
    private byte* _start;
    private long _state;
    private int _completed;
    private int _alignedEnd;

    // Written while sealed, read by claimers after the state: the state's life tells whether it is theirs.
    private int _limit;

    /// <param name="length">What one write to the file has at most, whole blocks; one block more is allocated.</param>
    public AppendBuffer(int length)
    {
        _length = length;
        _alignment = length / 2 / AppendFileOptions.BlockLength * AppendFileOptions.BlockLength;
        _start = (byte*)NativeMemory.AlignedAlloc((nuint)(length + AppendFileOptions.BlockLength), AppendFileOptions.BlockLength);
        _state = Join(0, Sealed);
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
    public int Reserved => (int)Volatile.Read(ref _state);

    /// <summary>Claims room; the place of the first byte, or -1 when there is none or the buffer is sealed.</summary>
    public int TryClaim(int length)
    {
        long state = Volatile.Read(ref _state);
        while ((int)state >= 0 && length <= _limit - (int)state)
        {
            long seen = Interlocked.CompareExchange(ref _state, state + length, state);
            if (seen == state)
                return (int)state;

            Contention.GiveWay();
            state = Volatile.Read(ref _state);
        }

        return -1;
    }

    /// <summary>Copies into claimed room, and tells that it is done: after this the buffer must not be touched.</summary>
    public void Fill(int start, ReadOnlySpan<byte> source)
    {
        source.CopyTo(new Span<byte>(_start + start, source.Length));
        Interlocked.Add(ref _completed, source.Length);
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
        _completed = carried;
        _alignedEnd = (int)((filePosition + _length) / _alignment * _alignment - filePosition);
        _limit = (int)Math.Clamp(fileLengthMax - filePosition, 0, _alignedEnd + AppendFileOptions.BlockLength);
    }

    /// <summary>Lets writers in; what lies below is filled, or claimed by whoever opens it.</summary>
    public void Open(int reserved) => Volatile.Write(ref _state, Join((_state >> 32) + 1, reserved));

    /// <summary>Ends the claiming.</summary>
    public void Seal(bool endsFile)
    {
        long old = Interlocked.Exchange(ref _state, Join(_state >> 32, Sealed));
        if ((int)old >= 0)
            End = (int)old;
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
        Fill(start, source[..count]);
        return count;
    }

    /// <summary>
    /// Waits until every claimed byte is copied: a writer that has claimed is at it, or was put aside for a moment.
    /// </summary>
    public void WaitForCopies()
    {
        // A sleep takes a thousand times as long as a copy: only after many turns, each of which lets other threads run.
        const int TurnsWithoutSleep = 1000;
        SpinWait spinner = default;
        while (Volatile.Read(ref _completed) != End)
            spinner.SpinOnce(spinner.Count < TurnsWithoutSleep ? -1 : TurnsWithoutSleep);
    }

    /// <summary>Gives the memory back. Sealed, and every copy done.</summary>
    public void Free()
    {
        NativeMemory.AlignedFree(_start);
        _start = null;
    }

    private static long Join(long life, int reserved) => (life << 32) | (uint)reserved;
}
