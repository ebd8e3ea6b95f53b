using System.Runtime.InteropServices;
using MappedFileQueues.Files;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Bench.Files;

/// <summary>What a file has on disk before it is written: the rows of the classic table.</summary>
internal sealed partial record FileRoom(string Name, FilePreallocation Preallocation)
{
    private const int ZeroRangeFlag = 0x10;
    private const int ChunkLength = 1 << 20;

    public static readonly FileRoom None = new("none", FilePreallocation.None);

    public static readonly FileRoom Allocated = new("fallocate", FilePreallocation.Fallocate);

    public static readonly FileRoom ZeroRange = new("zero range", FilePreallocation.ZeroRange);

    /// <summary>
    /// Every block was written before. For AppendFileStream: by zeros, which is how it hands a file over that is used again.
    /// </summary>
    public static readonly FileRoom Reused = new("reused", FilePreallocation.WrittenZeros);

    /// <summary>Those that this system has.</summary>
    public static IEnumerable<FileRoom> All =>
        OperatingSystem.IsLinux() ? [None, Allocated, ZeroRange, Reused] : [None, Reused];

    /// <summary>Makes the file as it is before a bare call, FileStream or RandomAccess opens it.</summary>
    public void Make(string path, long length)
    {
        if (this == None)
            return;
        using SafeFileHandle file = File.OpenHandle(path, FileMode.OpenOrCreate, FileAccess.ReadWrite);
        if (this == Reused)
        {
            byte[] chunk = new byte[ChunkLength];
            chunk.AsSpan().Fill(0x5a);
            for (long position = 0; position < length; position += ChunkLength)
                RandomAccess.Write(file, chunk.AsSpan(0, (int)Math.Min(ChunkLength, length - position)), position);
        }
        else if (Allocate((int)file.DangerousGetHandle(), this == ZeroRange ? ZeroRangeFlag : 0, 0, length) != 0)
        {
            throw new ToolException(
                $"The file system cannot allocate: path={path}, way={Name}, errno={Marshal.GetLastPInvokeError()}.");
        }
    }

    [LibraryImport("libc", EntryPoint = "fallocate", SetLastError = true)]
    private static partial int Allocate(int file, int mode, long offset, long length);
}
