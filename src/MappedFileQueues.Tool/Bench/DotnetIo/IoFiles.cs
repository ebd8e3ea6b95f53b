using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Tool.Bench.DotnetIo;

/// <summary>The files that the ways read and write: one of full length, a small one, and the name of one to be made.</summary>
internal sealed class IoFiles : IDisposable
{
    public const int SmallLength = 1024;

    private readonly string _directory;
    private readonly List<IDisposable> _opened = [];


    public IoFiles(string directory, long length)
    {
        _directory = directory;
        File.WriteAllBytes(Small, new byte[SmallLength]);
        SetLength(length);
    }

    public string Source => Path.Combine(_directory, "source");

    public string Small => Path.Combine(_directory, "small");

    private string Target => Path.Combine(_directory, "target");

    /// <summary>How long the source is, and the target becomes.</summary>
    public long Length { get; private set; }

    /// <summary>
    /// The name of the file to be made, which is not there: ext4 writes a file out when it is closed after it was truncated, and
    /// that is another job.
    /// </summary>
    public string NewTarget()
    {
        File.Delete(Target);
        return Target;
    }

    /// <summary>Makes the source anew.</summary>
    public void SetLength(long length)
    {
        Length = length;
        byte[] block = new byte[1024 * 1024];
        new Random(3).NextBytes(block);
        using SafeFileHandle file = File.OpenHandle(Source, FileMode.Create, FileAccess.Write);
        for (long position = 0; position < length; position += block.Length)
            RandomAccess.Write(file, block.AsSpan(0, (int)Math.Min(block.Length, length - position)), position);
    }

    /// <summary>Keeps a file open until the end of the table.</summary>
    public T Keep<T>(T opened)
        where T : IDisposable
    {
        _opened.Add(opened);
        return opened;
    }

    public void Dispose()
    {
        foreach (IDisposable opened in _opened)
            opened.Dispose();
        File.Delete(Source);
        File.Delete(Small);
        File.Delete(Target);
    }
}
