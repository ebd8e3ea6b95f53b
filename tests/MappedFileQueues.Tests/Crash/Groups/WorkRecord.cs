using System.IO.MemoryMappedFiles;
using System.Runtime.CompilerServices;

namespace MappedFileQueues.Tests.Crash.Groups;

/// <summary>
/// What processes do with numbered messages, in a file that all of them map: it is there when they are killed. For each message,
/// how often it was handed out, rejected, about to be acknowledged, and acknowledged; for each worker, what it has in hand.
/// </summary>
internal sealed unsafe class WorkRecord : IDisposable
{
    public const int BatchMax = 64;

    private const int CounterCount = 5;
    private const int WorkerLength = (1 + BatchMax) * sizeof(int);

    private readonly MemoryMappedFile _file;
    private readonly MemoryMappedViewAccessor _view;
    private readonly int* _words;
    private readonly int _messages;

    public WorkRecord(string path, int messages, int workers)
    {
        _messages = messages;
        long length = ((long)messages * CounterCount * sizeof(int)) + ((long)workers * WorkerLength);
        _file = MemoryMappedFile.CreateFromFile(path, FileMode.OpenOrCreate, null, length);
        _view = _file.CreateViewAccessor(0, length);
        byte* start = null;
        _view.SafeMemoryMappedViewHandle.AcquirePointer(ref start);
        _words = (int*)start;
    }

    public ref int Handed(long message) => ref _words[message];

    public ref int Rejected(long message) => ref _words[_messages + message];

    public ref int Ending(long message) => ref _words[(2L * _messages) + message];

    public ref int Ended(long message) => ref _words[(3L * _messages) + message];

    /// <summary>How often a worker was killed with it in hand.</summary>
    public ref int Deaths(long message) => ref _words[(4L * _messages) + message];

    /// <summary>A worker notes what it has in hand.</summary>
    public void Hold(int worker, ReadOnlySpan<long> messages)
    {
        int* own = Worker(worker);
        for (int i = 0; i < messages.Length; i++)
            own[1 + i] = (int)messages[i];
        Volatile.Write(ref *own, messages.Length);
    }

    /// <summary>What a worker that is dead had in hand.</summary>
    public ReadOnlySpan<int> HeldBy(int worker) => new(Worker(worker) + 1, Volatile.Read(ref *Worker(worker)));

    public void Dispose()
    {
        _view.SafeMemoryMappedViewHandle.ReleasePointer();
        _view.Dispose();
        _file.Dispose();
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private int* Worker(int worker) => _words + ((long)CounterCount * _messages) + ((long)worker * (1 + BatchMax));
}
