using System.Runtime.CompilerServices;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Processes;

/// <summary>
/// A shared mapped page over which two processes wait for each other, so that both start at once, and tell each other
/// results. The arrivals word: both raise it (interlocked, a full barrier), both read it with acquire; it only ever grows.
/// </summary>
internal sealed unsafe class Rendezvous : IDisposable
{
    private const int FileLength = 8192;
    private const int ArrivalsPosition = 0;
    private const int ResultsPosition = 1024;
    private const int WordsPosition = 4096;

    /// <summary>No word that is written often shares its cache line, nor the one that is fetched with it, with another.</summary>
    private const int WordStride = 128;

    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(3);

    private readonly RawFile _file;
    private int _met;

    private Rendezvous(RawFile file) => _file = file;

    /// <summary>Made by the process that starts the two; lives as long as what is returned.</summary>
    public static RawFile CreateFile(string path) => RawFile.Create(path, FileLength, allocates: true);

    public static Rendezvous Open(string path) => new(RawFile.Open(path));

    /// <summary>A 32-bit word for a futex or a flag of the figure's own; all begin at 0.</summary>
    public ref int Word(int index) => ref *(int*)(_file.Start + WordsPosition + index * WordStride);

    /// <summary>A 64-bit word; shares its place with the <see cref="Word"/> of the same index.</summary>
    public ref long LongWord(int index) => ref *(long*)(_file.Start + WordsPosition + index * WordStride);

    /// <summary>A result that the other process reads after the next meeting.</summary>
    public ref long Result(int index) => ref *(long*)(_file.Start + ResultsPosition + index * sizeof(long));

    /// <summary>Waits for the other process, asleep: it may be preparing files, for which it needs CPUs.</summary>
    public void Meet()
    {
        int target = Arrive();
        long start = Clock.Now;
        while (!HaveArrived(target))
        {
            Thread.Sleep(1);
            ThrowIfLate(start);
        }
    }

    /// <summary>Waits asleep until both are ready, then once more spinning, so that both leave within a microsecond.</summary>
    public void MeetToStart()
    {
        Meet();
        int target = Arrive();
        long start = Clock.Now;
        while (!HaveArrived(target))
        {
            RawLoops.Relax();
            ThrowIfLate(start);
        }
    }

    /// <summary>
    /// Both processes tell when they started and ended; the answer, the same in both, is the rate from the first start to the
    /// last end.
    /// </summary>
    public double ExchangeRate(int index, long started, long ended, long count)
    {
        Result(2 * index) = started;
        Result(2 * index + 1) = ended;
        Meet();
        long ticks = Math.Max(Result(1), Result(3)) - Math.Min(Result(0), Result(2));
        Meet();
        return count * 1e9 / Clock.Nanoseconds(ticks);
    }

    public void Dispose() => _file.Dispose();

    private int Arrive()
    {
        _met++;
        Interlocked.Increment(ref Arrivals());
        return 2 * _met;
    }

    private bool HaveArrived(int target) => Volatile.Read(ref Arrivals()) - target >= 0;

    private ref int Arrivals() => ref Unsafe.AsRef<int>(_file.Start + ArrivalsPosition);

    private static void ThrowIfLate(long start)
    {
        if (Clock.MillisecondsSince(start) > s_deadline.TotalMilliseconds)
            throw new ToolException($"The other process of this figure did not arrive: waited={s_deadline}.");
    }
}
