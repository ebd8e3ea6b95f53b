using System.IO.MemoryMappedFiles;
using System.Numerics;
using System.Runtime.InteropServices;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Bench.Files;

/// <summary>
/// What a program would write to read a file from front to back without this library: bare reads, an unbuffered FileStream, reads
/// past the cache (O_DIRECT), a mapping, reads after readahead(2). Each gives the sum of the file's words, so that every byte is
/// looked at.
/// </summary>
internal static unsafe partial class ReadPeers
{
    public const int BufferLength = 1024 * 1024;

    private const int LargeLength = 4 * 1024 * 1024;
    private const int BlockLength = 4096;
    private const int AskedAhead = 16 * 1024 * 1024;
    private const int AdviseSequential = 2;
    private const int AdviseDontNeed = 4;

    public static IReadOnlyList<(string Suffix, Func<string, ulong> Read)> All { get; } =
    [
        ("_read_1m", path => ReadBare(path, BufferLength)),
        ("_read_4m", path => ReadBare(path, LargeLength)),
        ("_filestream_0", ReadByUnbufferedStream),
        ("_direct", ReadDirectly),
        ("_mmap", ReadMapped),
        ("_readahead", ReadAfterAsking),
    ];

    /// <summary>The same sum for every reader; wide enough that it is bound by memory.</summary>
    public static ulong Sum(ReadOnlySpan<byte> bytes)
    {
        ReadOnlySpan<Vector<ulong>> wide = MemoryMarshal.Cast<byte, Vector<ulong>>(bytes);
        Vector<ulong> one = default;
        Vector<ulong> two = default;
        int i = 0;
        for (; i + 1 < wide.Length; i += 2)
        {
            one += wide[i];
            two += wide[i + 1];
        }

        if (i < wide.Length)
            one += wide[i];
        ulong sum = Vector.Sum(one + two);
        foreach (ulong word in MemoryMarshal.Cast<byte, ulong>(bytes[(wide.Length * Vector<byte>.Count)..]))
            sum += word;
        return sum;
    }

    /// <summary>Takes the file's pages out of the system's cache; false where there is no such call.</summary>
    public static bool TryDropCache(string path)
    {
        if (!OperatingSystem.IsLinux())
            return false;
        using SafeFileHandle file = File.OpenHandle(path, FileMode.Open, FileAccess.ReadWrite);

        // Only pages that are on the disk can be dropped.
        RandomAccess.FlushToDisk(file);
        return Advise(file, 0, 0, AdviseDontNeed) == 0;
    }

    private static ulong ReadBare(string path, int bufferLength)
    {
        using SafeFileHandle file = File.OpenHandle(path, options: FileOptions.None);
        void* memory = NativeMemory.AlignedAlloc((nuint)bufferLength, BlockLength);
        ulong sum = 0;
        Span<byte> buffer = new(memory, bufferLength);
        long position = 0;
        for (int count; (count = RandomAccess.Read(file, buffer, position)) > 0; position += count)
            sum += Sum(buffer[..count]);
        NativeMemory.AlignedFree(memory);
        return sum;
    }

    private static ulong ReadByUnbufferedStream(string path)
    {
        using FileStream stream = new(path, FileMode.Open, FileAccess.Read, FileShare.Read, bufferSize: 0);
        void* memory = NativeMemory.AlignedAlloc(BufferLength, BlockLength);
        ulong sum = 0;
        Span<byte> buffer = new(memory, BufferLength);
        for (int count; (count = stream.Read(buffer)) > 0;)
            sum += Sum(buffer[..count]);
        NativeMemory.AlignedFree(memory);
        return sum;
    }

    /// <summary>By 4 MiB, one read after the other. Where the file system has no such reads, as bare ones.</summary>
    private static ulong ReadDirectly(string path)
    {
        using SafeFileHandle? file = DirectFiles.TryOpen(path, DirectFiles.Read);
        if (file is null)
            return ReadBare(path, LargeLength);
        void* memory = NativeMemory.AlignedAlloc(LargeLength, BlockLength);
        ulong sum = 0;
        Span<byte> buffer = new(memory, LargeLength);
        long position = 0;
        for (int count; (count = RandomAccess.Read(file, buffer, position)) > 0; position += count)
            sum += Sum(buffer[..count]);
        NativeMemory.AlignedFree(memory);
        return sum;
    }

    private static ulong ReadAfterAsking(string path)
    {
        using SafeFileHandle file = File.OpenHandle(path, options: FileOptions.None);
        void* memory = NativeMemory.AlignedAlloc(BufferLength, BlockLength);
        ulong sum = 0;
        Span<byte> buffer = new(memory, BufferLength);
        long position = 0;
        Ask(file, 0, AskedAhead);
        for (int count; (count = RandomAccess.Read(file, buffer, position)) > 0; position += count)
        {
            Ask(file, position + AskedAhead, BufferLength);
            sum += Sum(buffer[..count]);
        }

        NativeMemory.AlignedFree(memory);
        return sum;
    }

    private static ulong ReadMapped(string path)
    {
        using MemoryMappedFile file = MemoryMappedFile.CreateFromFile(
            path, FileMode.Open, null, 0, MemoryMappedFileAccess.Read);
        using MemoryMappedViewAccessor view = file.CreateViewAccessor(0, 0, MemoryMappedFileAccess.Read);
        byte* start = null;
        view.SafeMemoryMappedViewHandle.AcquirePointer(ref start);
        long length = new FileInfo(path).Length;
        if (OperatingSystem.IsLinux())
            _ = AdviseMemory(start, (nint)length, AdviseSequential);
        ulong sum = 0;
        for (long position = 0; position < length; position += BufferLength)
            sum += Sum(new ReadOnlySpan<byte>(start + position, (int)Math.Min(BufferLength, length - position)));
        view.SafeMemoryMappedViewHandle.ReleasePointer();
        return sum;
    }

    private static void Ask(SafeFileHandle file, long position, long length)
    {
        if (OperatingSystem.IsLinux())
            _ = ReadAhead(file, position, (nint)length);
    }

    [LibraryImport("libc", EntryPoint = "posix_fadvise")]
    private static partial int Advise(SafeFileHandle file, long offset, long length, int advice);

    [LibraryImport("libc", EntryPoint = "readahead")]
    private static partial nint ReadAhead(SafeFileHandle file, long offset, nint count);

    [LibraryImport("libc", EntryPoint = "madvise")]
    private static partial int AdviseMemory(byte* address, nint length, int advice);
}
