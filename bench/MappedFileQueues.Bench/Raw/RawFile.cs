using System.IO.MemoryMappedFiles;

namespace MappedFileQueues.Bench.Raw;

/// <summary>
/// A file mapped shared, as a segment is, but by the BCL alone: the yardstick must not depend on the code that it measures.
/// </summary>
internal sealed unsafe class RawFile : IDisposable
{
    private const int PageLength = 4096;

    private readonly MemoryMappedFile _file;
    private readonly MemoryMappedViewAccessor _view;
    private readonly string _path;
    private readonly bool _deletes;

    private RawFile(string path, long length, FileStream stream, bool deletes)
    {
        _path = path;
        _deletes = deletes;
        Length = length;
        _file = MemoryMappedFile.CreateFromFile(
            stream, null, length, MemoryMappedFileAccess.ReadWrite, HandleInheritability.None, leaveOpen: false);
        _view = _file.CreateViewAccessor(0, length, MemoryMappedFileAccess.ReadWrite);
        byte* start = null;
        _view.SafeMemoryMappedViewHandle.AcquirePointer(ref start);
        Start = start + _view.PointerOffset;
    }

    public byte* Start { get; }

    public long Length { get; }

    /// <summary>The length of a file that holds this many frames of 64 bytes.</summary>
    public static long LengthFor(long count) => (count * Message64.FrameLength + PageLength - 1) / PageLength * PageLength;

    /// <summary>Creates the file, with or without blocks; Dispose deletes it.</summary>
    public static RawFile Create(string path, long length, bool allocates)
    {
        FileStream stream = new(path, new FileStreamOptions
        {
            Mode = FileMode.CreateNew,
            Access = FileAccess.ReadWrite,
            Share = FileShare.ReadWrite | FileShare.Delete,
            BufferSize = 0,
            PreallocationSize = allocates ? length : 0,
        });
        stream.SetLength(length);
        return new RawFile(path, length, stream, deletes: true);
    }

    /// <summary>Opens a file that another process created.</summary>
    public static RawFile Open(string path)
    {
        FileStream stream = new(path, FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite | FileShare.Delete, bufferSize: 0);
        return new RawFile(path, stream.Length, stream, deletes: false);
    }

    /// <summary>Makes every page present and writable in this process, so that no store meets a page fault.</summary>
    public RawFile TouchForWriting() => TouchForWriting(0, Length);

    /// <summary>The same for a part of the file.</summary>
    public RawFile TouchForWriting(long position, long length)
    {
        for (long i = position; i < position + length; i += PageLength)
            Volatile.Write(ref Start[i], Volatile.Read(ref Start[i]));
        return this;
    }

    /// <summary>Makes every page readable in this process without a page fault.</summary>
    public RawFile TouchForReading()
    {
        for (long i = 0; i < Length; i += PageLength)
            _ = Volatile.Read(ref Start[i]);
        return this;
    }

    public void Dispose()
    {
        // Disposing the accessor would flush the whole file to the disk; closing its handle only unmaps.
        _view.SafeMemoryMappedViewHandle.ReleasePointer();
        _view.SafeMemoryMappedViewHandle.Dispose();
        _view.Dispose();
        _file.Dispose();
        if (_deletes)
            File.Delete(_path);
    }
}
