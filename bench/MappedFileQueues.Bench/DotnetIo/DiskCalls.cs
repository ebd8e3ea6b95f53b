using System.Runtime.InteropServices;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Bench.DotnetIo;

/// <summary>Calls of libc that .NET does not make.</summary>
internal static partial class DiskCalls
{
    /// <summary>What was written is on disk, and what is needed to find it again; the times of the file need not be.</summary>
    public static void SyncData(SafeFileHandle file)
    {
        if (FlushData(file) != 0)
            throw new ToolException($"fdatasync failed: errno={Marshal.GetLastPInvokeError()}.");
    }

    [LibraryImport("libc", EntryPoint = "fdatasync", SetLastError = true)]
    private static partial int FlushData(SafeFileHandle file);
}

/// <summary>Memory at a page's begin, as files past the cache want it.</summary>
internal sealed unsafe class AlignedBuffer : IDisposable
{
    private readonly void* _start;
    private readonly int _length;

    /// <summary>A copy of the content.</summary>
    public AlignedBuffer(ReadOnlySpan<byte> content)
    {
        _length = content.Length;
        _start = NativeMemory.AlignedAlloc((nuint)_length, IoLoops.Page);
        content.CopyTo(Span);
    }

    public Span<byte> Span => new(_start, _length);

    public void Dispose() => NativeMemory.AlignedFree(_start);
}
