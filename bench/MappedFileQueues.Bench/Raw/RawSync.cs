using System.Runtime.InteropServices;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Bench.Raw;

/// <summary>
/// Bare flushes, one after the other: a block of 4 KiB is written and flushed. Rewritten, the block is the same each time, of
/// a file that was written before; else each is the next one of a file whose blocks were allocated and never written.
/// </summary>
internal sealed partial class RawSync : IDisposable
{
    private const int BlockLength = 4096;

    private readonly byte[] _block = new byte[BlockLength];
    private readonly SafeFileHandle _file;
    private readonly string _path;
    private readonly bool _rewrites;
    private long _next;

    public RawSync(string path, bool rewrites, int countMax)
    {
        _path = path;
        _rewrites = rewrites;
        _file = File.OpenHandle(path, FileMode.CreateNew, FileAccess.ReadWrite, FileShare.None, FileOptions.None,
            rewrites ? BlockLength : (long)countMax * BlockLength);
        RandomAccess.SetLength(_file, rewrites ? BlockLength : (long)countMax * BlockLength);
        if (rewrites)
            RandomAccess.Write(_file, _block, 0);
        Flush();
    }

    /// <summary>Flushes a second.</summary>
    public double Measure(int count)
    {
        long start = Clock.Now;
        Run(count);
        return count * 1e9 / Clock.Nanoseconds(Clock.Now - start);
    }

    /// <summary>Writes and flushes so many blocks.</summary>
    public void Run(int count)
    {
        for (int i = 0; i < count; i++)
        {
            _block[0]++;
            RandomAccess.Write(_file, _block, _rewrites ? 0 : BlockLength * _next++);
            Flush();
        }
    }

    public void Dispose()
    {
        _file.Dispose();
        File.Delete(_path);
    }

    private void Flush()
    {
        if (!OperatingSystem.IsLinux())
            RandomAccess.FlushToDisk(_file);
        else if (FlushData(_file) != 0)
            throw new ToolException($"A flush of the raw loop failed: path={_path}, errno={Marshal.GetLastPInvokeError()}.");
    }

    [LibraryImport("libc", EntryPoint = "fdatasync", SetLastError = true)]
    private static partial int FlushData(SafeFileHandle file);
}
