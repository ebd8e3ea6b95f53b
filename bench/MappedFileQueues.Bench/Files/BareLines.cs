using System.Runtime.InteropServices;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Bench.Files;

/// <summary>
/// The bare loop beside the lines, over blocks that were written before: memcpy into a buffer of the length that AppendFileStream
/// has, and pwrite when it is full.
/// </summary>
internal sealed unsafe partial class BareLines : IDisposable
{
    private const int BufferLength = 1024 * 1024;
    private const int BlockLength = 4096;

    private readonly SafeFileHandle _handle;
    private readonly byte* _buffer = (byte*)NativeMemory.AlignedAlloc(BufferLength, BlockLength);
    private int _used;
    private long _position;

    private BareLines(string path) => _handle = File.OpenHandle(path, FileMode.Open, FileAccess.Write);

    public static (LineRun.LineWriter Write, IDisposable File) Open(string path, long length)
    {
        FileRoom.Reused.Make(path, length);
        BareLines lines = new(path);
        return (lines.Write, lines);
    }

    public void Dispose()
    {
        Flush(_used);
        NativeMemory.AlignedFree(_buffer);
        _handle.Dispose();
    }

    private void Write(ReadOnlySpan<byte> line)
    {
        int count = Math.Min(line.Length, BufferLength - _used);
        line[..count].CopyTo(new Span<byte>(_buffer + _used, count));
        _used += count;
        if (_used < BufferLength)
            return;

        // Always the whole buffer, so that every write begins at a multiple of its length; the line's rest goes to the front.
        Flush(_used);
        _used = line.Length - count;
        line[count..].CopyTo(new Span<byte>(_buffer, _used));
    }

    private void Flush(int count)
    {
        if (!OperatingSystem.IsLinux())
            RandomAccess.Write(_handle, new ReadOnlySpan<byte>(_buffer, count), _position);
        else if (WriteAt((int)_handle.DangerousGetHandle(), _buffer, count, _position) != count)
            throw new ToolException($"A bare write failed: errno={Marshal.GetLastPInvokeError()}.");
        _position += count;
    }

    [LibraryImport("libc", EntryPoint = "pwrite", SetLastError = true)]
    private static partial nint WriteAt(int file, byte* bytes, nint count, long position);
}
