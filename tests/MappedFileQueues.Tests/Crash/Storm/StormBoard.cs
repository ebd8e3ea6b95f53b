using System.IO.MemoryMappedFiles;

namespace MappedFileQueues.Tests.Crash.Storm;

/// <summary>
/// What the victims of a kill storm say about themselves, in a mapped file: stores to it survive the kill as those to the log do.
/// Each victim has a line of its own and is the only one that writes there. Who makes the file says how many lines; others say 0.
/// </summary>
internal sealed unsafe class StormBoard : IDisposable
{
    private const int LineLength = 64;

    private readonly MemoryMappedFile _file;
    private readonly MemoryMappedViewAccessor _view;
    private readonly byte* _pointer;

    public StormBoard(string path, int lineCount)
    {
        _file = MemoryMappedFile.CreateFromFile(path, FileMode.OpenOrCreate, null, (long)lineCount * LineLength);
        _view = _file.CreateViewAccessor();
        _view.SafeMemoryMappedViewHandle.AcquirePointer(ref _pointer);
    }

    /// <summary>How many messages the victim has begun to append, a batch with all of its own.</summary>
    public ref long Begun(int line) => ref Word(line, 0);

    /// <summary>How many messages the victim's appends have returned for.</summary>
    public ref long Acked(int line) => ref Word(line, 1);

    /// <summary>The monotonic clock when the victim went; 0 while it lives.</summary>
    public ref long Died(int line) => ref Word(line, 2);

    public void Dispose()
    {
        _view.SafeMemoryMappedViewHandle.ReleasePointer();
        _view.Dispose();
        _file.Dispose();
    }

    private ref long Word(int line, int index) => ref ((long*)(_pointer + ((long)line * LineLength)))[index];
}
