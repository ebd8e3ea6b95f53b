using System.IO.MemoryMappedFiles;

namespace MappedFileQueues.CrashLab.Processes;

/// <summary>
/// Where each message of a storm lies, as its producer was told: in a mapped file, because nobody else knows what a consumer has
/// skipped. Each line has one writer.
/// </summary>
internal sealed unsafe class OffsetLedger : IDisposable
{
    /// <summary>Messages of a line that there is room for.</summary>
    public const int CountMax = 32 * 1024;

    private readonly MemoryMappedFile _file;
    private readonly MemoryMappedViewAccessor _view;
    private readonly byte* _pointer;

    public OffsetLedger(string path)
    {
        _file = MemoryMappedFile.CreateFromFile(path, FileMode.OpenOrCreate, null, KillBoard.LineCount * CountMax * sizeof(long));
        _view = _file.CreateViewAccessor();
        _view.SafeMemoryMappedViewHandle.AcquirePointer(ref _pointer);
    }

    public void Note(int line, long number, long offset)
    {
        if (number < CountMax)
            Volatile.Write(ref Word(line, number), offset + 1);
    }

    /// <summary>Null when nobody was told.</summary>
    public long? OffsetOf(int line, long number) =>
        number < CountMax && Volatile.Read(ref Word(line, number)) is > 0 and var noted ? noted - 1 : null;

    public void Dispose()
    {
        _view.SafeMemoryMappedViewHandle.ReleasePointer();
        _view.Dispose();
        _file.Dispose();
    }

    private ref long Word(int line, long number) => ref *(long*)(_pointer + (((line * CountMax) + number) * sizeof(long)));
}
