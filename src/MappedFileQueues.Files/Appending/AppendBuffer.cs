using System.Diagnostics;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Files.Appending;

/// <summary>
/// One of the two buffers of a stream, in native memory, aligned to blocks. Its life, again and again: it is given a place in
/// the file; the <see cref="AppendCursor"/> opens it to writers, which claim room and copy; the cursor closes, and it is sealed;
/// the thread that writes it to the file waits until every claimed byte is copied.
/// <para>A full buffer is written up to a multiple of half its length in the file; what was claimed beyond that is carried over.
/// For a write of 256 KiB at such a place the system takes a few large pieces of memory, at any other many small ones (0.8
/// against 1.0 us for 4 KiB; measured, ext4, Linux 6.18).</para>
/// </summary>
internal sealed unsafe class AppendBuffer
{
    private readonly int _length;
    private readonly int _alignment;
    private byte* _start;
    private int _alignedEnd;

    /// <summary>How many claims are being copied outside of the cursor's lock.</summary>
    private int _copying;

    /// <param name="length">The most that one write to the file has, in whole blocks; one block more is allocated.</param>
    public AppendBuffer(int length)
    {
        _length = length;
        _alignment = length / 2 / AppendFileOptions.BlockLength * AppendFileOptions.BlockLength;
        try
        {
            _start = (byte*)NativeMemory.AlignedAlloc(
                (nuint)(length + AppendFileOptions.BlockLength), AppendFileOptions.BlockLength);
        }
        catch (OutOfMemoryException error)
        {
            // Whoever continues when a file cannot be opened continues here too.
            throw new MappedFileQueueException(
                $"There is no memory for a buffer: length={length}. Use a smaller BufferLength.", error);
        }
    }

    /// <summary>Its memory.</summary>
    public byte* Start => _start;

    /// <summary>How far writers may claim.</summary>
    public int Limit { get; private set; }

    /// <summary>
    /// The place of the first byte, counted from the opening of the stream; below 0 for what was there before.
    /// </summary>
    public long Origin { get; private set; }

    /// <summary>The position of the first byte in the file, a multiple of the block length.</summary>
    public long FilePosition { get; private set; }

    /// <summary>The bytes it holds, once sealed.</summary>
    public int End { get; set; }

    /// <summary>How many of its last bytes, once sealed, the next buffer begins with and writes.</summary>
    public int Carried => EndsFile ? 0 : End >= _alignedEnd ? End - _alignedEnd : End % AppendFileOptions.BlockLength;

    /// <summary>After its bytes the file is done, and the next buffer begins the next file.</summary>
    public bool EndsFile { get; set; }

    /// <summary>The first bytes.</summary>
    public Span<byte> First(int length) => new(_start, length);

    /// <summary>The place of a byte of its memory, counted as <see cref="Origin"/>.</summary>
    public long PlaceOf(byte* at) => Origin + (at - _start);

    /// <summary>
    /// Places the buffer, still sealed. Its first <paramref name="carried"/> bytes are those of the last block that began before
    /// it: the thread that drains the buffer before it copies them here.
    /// </summary>
    public void Begin(long origin, long filePosition, int carried, long fileLengthMax)
    {
        Debug.Assert(filePosition % AppendFileOptions.BlockLength == 0);
        (Origin, FilePosition, EndsFile, End) = (origin, filePosition, false, carried);
        _alignedEnd = (int)((filePosition + _length) / _alignment * _alignment - filePosition);
        Limit = (int)Math.Clamp(fileLengthMax - filePosition, 0, _alignedEnd + AppendFileOptions.BlockLength);
    }

    /// <summary>A claim is going to be copied by <see cref="Fill"/>. In the cursor's lock.</summary>
    public void BeginCopy() => Interlocked.Increment(ref _copying);

    /// <summary>
    /// Copies into claimed room, reports that, and gives the place after it. The caller must not touch the buffer afterwards.
    /// </summary>
    public long Fill(byte* start, ReadOnlySpan<byte> source)
    {
        long end = PlaceOf(start + source.Length);
        source.CopyTo(new Span<byte>(start, source.Length));
        Interlocked.Decrement(ref _copying);
        return end;
    }

    /// <summary>
    /// Copies after what a sealed buffer holds, for the one long write that it was sealed for; returns how much fitted.
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
    /// Waits until every claimed byte is copied: a writer that has claimed is copying, or was preempted for a moment.
    /// </summary>
    public void WaitForCopies()
    {
        for (int turns = 0; Volatile.Read(ref _copying) != 0; turns++)
            AppendCursor.WaitATurn(turns);
    }

    /// <summary>Gives the memory back. Sealed, and every copy done.</summary>
    public void Free()
    {
        NativeMemory.AlignedFree(_start);
        _start = null;
    }
}
