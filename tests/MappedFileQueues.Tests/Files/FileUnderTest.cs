using System.Runtime.InteropServices;
using MappedFileQueues.Files.Reading.Blocks;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Files;

/// <summary>A real file in a folder of its own, for one test.</summary>
internal sealed partial class FileUnderTest : IDisposable
{
    private const int DontNeed = 4;

    private readonly TempStore _folder = new();

    public FileUnderTest(ReadOnlySpan<byte> content, bool portable = false)
    {
        PlatformScope.Use(portable);
        File.WriteAllBytes(Path, content);
    }

    public string Path => System.IO.Path.Combine(_folder.Root, "file");

    public string Folder => _folder.Root;

    /// <summary>Random bytes that a seed gives.</summary>
    public static byte[] Bytes(int seed, int length)
    {
        byte[] bytes = new byte[length];
        new System.Random(seed).NextBytes(bytes);
        return bytes;
    }

    public void Append(ReadOnlySpan<byte> more)
    {
        using FileStream file = new(Path, FileMode.Append, FileAccess.Write, FileShare.ReadWrite | FileShare.Delete);
        file.Write(more);
    }

    public void SetLength(long length)
    {
        using FileStream file = new(Path, FileMode.Open, FileAccess.Write, FileShare.ReadWrite | FileShare.Delete);
        file.SetLength(length);
    }

    /// <summary>Takes the file out of the system's memory, where the system has a call for it.</summary>
    public void DropFromMemory() => DropFromMemory(Path);

    /// <inheritdoc cref="DropFromMemory()"/>
    public static void DropFromMemory(string path)
    {
        using FileStream file = new(path, FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite | FileShare.Delete);

        // Only what is on the disk can be dropped.
        file.Flush(flushToDisk: true);
        if (OperatingSystem.IsLinux())
            Assert.Equal(0, Advise(file.SafeFileHandle, 0, 0, DontNeed));
    }

    public void Dispose() => _folder.Dispose();

    [LibraryImport("libc", EntryPoint = "posix_fadvise")]
    private static partial int Advise(SafeHandle file, long offset, long length, int advice);
}

/// <summary>
/// A file of which a test decides what each read does: it waits, or fails, or the file is shorter all at once.
/// </summary>
internal sealed class ScriptedFile(byte[] content) : ReadableFile
{
    private volatile byte[] _content = content;
    private int _reading;

    public override string Path => "/scripted";

    public override long Length
    {
        get
        {
            OnLength?.Invoke();
            return _content.Length;
        }
    }

    /// <summary>Called when somebody asks for the length; may wait.</summary>
    public Action? OnLength { get; set; }

    public bool IsClosed { get; private set; }

    /// <summary>Called before each read with its position; may wait or throw.</summary>
    public Action<long>? BeforeRead { get; set; }

    public void Replace(byte[] content) => _content = content;

    public override int ReadAt(Span<byte> destination, long position)
    {
        Assert.Equal(1, Interlocked.Increment(ref _reading));
        Assert.False(IsClosed);
        try
        {
            BeforeRead?.Invoke(position);
            byte[] content = _content;
            int count = (int)Math.Clamp(content.Length - position, 0, destination.Length);
            if (count > 0)
                content.AsSpan((int)position, count).CopyTo(destination);
            return count;
        }
        finally
        {
            Interlocked.Decrement(ref _reading);
        }
    }

    public override int ReadCachedAt(Span<byte> destination, long position) => 0;

    public override void AdviseSequential()
    {
    }

    public override void Dispose()
    {
        Assert.Equal(0, Volatile.Read(ref _reading));
        IsClosed = true;
    }
}
