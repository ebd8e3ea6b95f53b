using System.Runtime.InteropServices;
using MappedFileQueues.Files;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Bench.Files;

/// <summary>A file that is written from its start in equal blocks, by one of the ways that a program has.</summary>
internal interface IBlockFile : IDisposable
{
    void Write(ReadOnlySpan<byte> block, long position);

    /// <summary>What survives a power loss: fdatasync where the way offers it, else what it offers.</summary>
    void Sync();
}

/// <summary>The ways, by the names of the classic table's columns.</summary>
internal static partial class BlockFiles
{
    public const string Bare = "bare";
    public const string Ours = "AppendFileStream";

    /// <summary>All but ours, which opens its file with the room that it makes itself.</summary>
    private static readonly Dictionary<string, Func<string, IBlockFile>> s_peers = new()
    {
        [Bare] = path => new BareFile(path),
        ["FileStream"] = path => new StreamFile(path, bufferLength: 4096),
        ["FileStream 0"] = path => new StreamFile(path, bufferLength: 0),
        ["RandomAccess"] = path => new RandomAccessFile(path),
    };

    public static IEnumerable<string> Names => [.. s_peers.Keys, Ours];

    /// <summary>
    /// Opens the file in the given way, over the room that is there or that ours makes; none of it is measured.
    /// </summary>
    public static IBlockFile Open(string way, string path, FileRoom room, long length, bool syncsEach)
    {
        if (way == Ours)
            return new AppendedFile(path, room, length, syncsEach);
        room.Make(path, length);
        return s_peers[way](path);
    }

    private sealed partial class BareFile : IBlockFile
    {
        private readonly SafeFileHandle _handle;
        private readonly int _descriptor;

        public BareFile(string path)
        {
            _handle = File.OpenHandle(path, FileMode.OpenOrCreate, FileAccess.ReadWrite);
            _descriptor = (int)_handle.DangerousGetHandle();
        }

        public unsafe void Write(ReadOnlySpan<byte> block, long position)
        {
            if (!OperatingSystem.IsLinux())
            {
                RandomAccess.Write(_handle, block, position);
                return;
            }

            fixed (byte* start = block)
            {
                if (WriteAt(_descriptor, start, block.Length, position) != block.Length)
                    throw new ToolException($"A bare write failed: errno={Marshal.GetLastPInvokeError()}.");
            }
        }

        public void Sync()
        {
            if (!OperatingSystem.IsLinux())
                RandomAccess.FlushToDisk(_handle);
            else if (FlushData(_descriptor) != 0)
                throw new ToolException($"A bare flush failed: errno={Marshal.GetLastPInvokeError()}.");
        }

        public void Dispose() => _handle.Dispose();

        [LibraryImport("libc", EntryPoint = "pwrite", SetLastError = true)]
        private static unsafe partial nint WriteAt(int file, byte* bytes, nint count, long position);

        [LibraryImport("libc", EntryPoint = "fdatasync", SetLastError = true)]
        private static partial int FlushData(int file);
    }

    private sealed class StreamFile(string path, int bufferLength) : IBlockFile
    {
        private readonly FileStream _stream =
            new(path, FileMode.OpenOrCreate, FileAccess.ReadWrite, FileShare.Read, bufferLength);

        public void Write(ReadOnlySpan<byte> block, long position) => _stream.Write(block);

        public void Sync() => _stream.Flush(flushToDisk: true);

        public void Dispose() => _stream.Dispose();
    }

    private sealed class RandomAccessFile(string path) : IBlockFile
    {
        private readonly SafeFileHandle _handle = File.OpenHandle(path, FileMode.OpenOrCreate, FileAccess.ReadWrite);

        public void Write(ReadOnlySpan<byte> block, long position) => RandomAccess.Write(_handle, block, position);

        public void Sync() => RandomAccess.FlushToDisk(_handle);

        public void Dispose() => _handle.Dispose();
    }

    private sealed class AppendedFile(string path, FileRoom room, long length, bool syncsEach) : IBlockFile
    {
        private readonly AppendFileStream _stream = new(path, new AppendFileOptions
        {
            Preallocation = room.Preallocation,
            Content = FileContent.Text,
            PreallocationLength = length,
            Durability = syncsEach ? AppendDurability.Group : AppendDurability.PageCache,
        });

        public void Write(ReadOnlySpan<byte> block, long position) => _stream.Write(block);

        public void Sync()
        {
            if (!syncsEach)
                _stream.Flush(durable: true);
        }

        public void Dispose() => _stream.Dispose();
    }
}
