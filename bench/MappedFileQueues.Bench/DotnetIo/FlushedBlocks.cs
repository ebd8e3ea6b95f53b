using System.Buffers.Binary;
using System.IO.MemoryMappedFiles;
using MappedFileQueues.Bench.Files;
using MappedFileQueues.Files;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Bench.DotnetIo;

/// <summary>
/// Numbered blocks of 4 KiB, each on disk before the next: at the file's growing end, or round and round in an old file.
/// </summary>
internal sealed class FlushedBlocks : IDisposable
{
    /// <summary>How many blocks an old file has.</summary>
    public const int OldCount = 256;

    private readonly string _path;
    private readonly SafeFileHandle _file;
    private readonly Action<SafeFileHandle> _sync;
    private readonly AlignedBuffer _block = new(IoFiles.Pattern(IoLoops.Page));
    private readonly bool _isNew;
    private long _count;

    private FlushedBlocks(string path, SafeFileHandle file, bool isNew, Action<SafeFileHandle> sync)
    {
        _path = path;
        _file = file;
        _isNew = isNew;
        _sync = sync;
    }

    /// <summary>Opens a new or an old file with the kernel's flags; null when it does not open a file so.</summary>
    public static FlushedBlocks? TryOpen(string path, bool isNew, int flags, Action<SafeFileHandle> sync)
    {
        if (!isNew)
            MakeOld(path);
        SafeFileHandle? file = OperatingSystem.IsLinux()
            ? DirectFiles.TryOpenPlain(path, (isNew ? DirectFiles.WriteNew : DirectFiles.WriteOld) | flags)
            : File.OpenHandle(path, FileMode.OpenOrCreate, FileAccess.Write, FileShare.ReadWrite);
        return file is null ? null : new FlushedBlocks(path, file, isNew, sync);
    }

    /// <summary>A file whose blocks are on disk.</summary>
    public static void MakeOld(string path)
    {
        using SafeFileHandle file = File.OpenHandle(path, FileMode.CreateNew, FileAccess.Write);
        RandomAccess.Write(file, IoFiles.Pattern(OldCount * IoLoops.Page), 0);
        RandomAccess.FlushToDisk(file);
    }

    /// <summary>Whether the last block that was written is in the file, and nothing is missing before it.</summary>
    public static void CheckLast(string path, long count, bool isNew)
    {
        using SafeFileHandle file = File.OpenHandle(path, share: FileShare.ReadWrite);
        IoLoops.Check(RandomAccess.GetLength(file), (isNew ? count : OldCount) * IoLoops.Page);
        byte[] block = new byte[IoLoops.Page];
        RandomAccess.Read(file, block, (isNew ? count - 1 : (count - 1) % OldCount) * IoLoops.Page);
        IoLoops.Check(BinaryPrimitives.ReadInt64LittleEndian(block), count);
    }

    public void WriteNext()
    {
        BinaryPrimitives.WriteInt64LittleEndian(_block.Span, _count + 1);
        RandomAccess.Write(_file, _block.Span, (_isNew ? _count : _count % OldCount) * IoLoops.Page);
        _sync(_file);
        _count++;
    }

    public void Check() => CheckLast(_path, _count, _isNew);

    public void Dispose()
    {
        _file.Dispose();
        _block.Dispose();
    }
}

/// <summary>The same over an old file, by storing into its mapping; the system is asked for the page that was written.</summary>
internal sealed class FlushedMapping : IDisposable
{
    private readonly string _path;
    private readonly MemoryMappedFile _file;
    private readonly byte[] _block = IoFiles.Pattern(IoLoops.Page);
    private long _count;

    public FlushedMapping(string path)
    {
        _path = path;
        FlushedBlocks.MakeOld(path);
        FileStream stream = new(path, FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite);
        _file = MemoryMappedFile.CreateFromFile(
            stream, null, 0, MemoryMappedFileAccess.ReadWrite, HandleInheritability.None, leaveOpen: false);
    }

    public void WriteNext()
    {
        BinaryPrimitives.WriteInt64LittleEndian(_block, _count + 1);
        long position = _count % FlushedBlocks.OldCount * IoLoops.Page;
        using MemoryMappedViewAccessor view = _file.CreateViewAccessor(position, IoLoops.Page);
        view.WriteArray(0, _block, 0, _block.Length);
        view.Flush();
        _count++;
    }

    public void Check() => FlushedBlocks.CheckLast(_path, _count, isNew: false);

    public void Dispose() => _file.Dispose();
}

/// <summary>The same at a growing end, by this library.</summary>
internal sealed class AppendedBlocks(string path) : IDisposable
{
    private readonly AppendFileStream _stream = new(path, new AppendFileOptions { Durability = AppendDurability.Group });
    private readonly byte[] _block = IoFiles.Pattern(IoLoops.Page);
    private long _count;

    public void WriteNext()
    {
        BinaryPrimitives.WriteInt64LittleEndian(_block, _count + 1);
        _stream.Write(_block);
        _count++;
    }

    public void Check() => FlushedBlocks.CheckLast(path, _count, isNew: true);

    public void Dispose() => _stream.Dispose();
}
