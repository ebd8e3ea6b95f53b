using System.IO.MemoryMappedFiles;

namespace MappedFileQueues.CrashLab.Processes;

/// <summary>
/// What the victims say about themselves, in a mapped file that survives them as the log does. Each line has one writer at a
/// time.
/// </summary>
internal sealed unsafe class KillBoard : IDisposable
{
    public const int LineCount = 256;

    private const int LineLength = 64;

    private readonly MemoryMappedFile _file;
    private readonly MemoryMappedViewAccessor _view;
    private readonly byte* _pointer;

    public KillBoard(string path)
    {
        _file = MemoryMappedFile.CreateFromFile(path, FileMode.OpenOrCreate, null, LineCount * LineLength);
        _view = _file.CreateViewAccessor();
        _view.SafeMemoryMappedViewHandle.AcquirePointer(ref _pointer);
    }

    /// <summary>The number of the last message that the producer has begun to append, a batch with all of its own.</summary>
    public ref long Begun(int line) => ref Word(line, 0);

    /// <summary>The number of the last message for which an append has returned.</summary>
    public ref long Acked(int line) => ref Word(line, 1);

    /// <summary>What a consumer's Commit has returned for.</summary>
    public ref long Committed(int line) => ref Word(line, 2);

    /// <summary>What a consumer has begun to commit.</summary>
    public ref long Committing(int line) => ref Word(line, 3);

    public void Dispose()
    {
        _view.SafeMemoryMappedViewHandle.ReleasePointer();
        _view.Dispose();
        _file.Dispose();
    }

    private ref long Word(int line, int index) => ref *(long*)(_pointer + (line * LineLength) + (index * 8));
}
