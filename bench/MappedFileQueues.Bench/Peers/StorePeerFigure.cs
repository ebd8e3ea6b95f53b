using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Peers;

/// <summary>
/// One thread appends all messages and then reads them: a peer and ours in turn, each repetition into new files. Nothing is
/// prepared before the clock starts, unless the figure says so.
/// </summary>
/// <param name="context">The process.</param>
/// <param name="appendName">The figure of appending, in ns; null if it does not count.</param>
/// <param name="readName">The figure of reading; null if it does not count.</param>
/// <param name="sides">What is measured.</param>
internal sealed class StorePeerFigure(ChildContext context, string? appendName, string? readName, PeerSides sides)
{
    private readonly List<double>[] _append = [[], []];
    private readonly List<double>[] _read = [[], []];

    public IReadOnlyList<Samples> Measure()
    {
        sides.Compile(context, queue =>
        {
            queue.Append(sides.WarmUpCount);
            queue.SeekToStart();
            queue.Read(sides.WarmUpCount);
        });
        for (int i = 0; i < context.Repetitions; i++)
        {
            Measure(side: 0, sides.OpenPeer);
            Measure(side: 1, sides.OpenOurs);
        }

        return [.. Result(appendName, _append), .. Result(readName, _read)];
    }

    private IEnumerable<Samples> Result(string? name, List<double>[] times) =>
        name is null ? [] : [new Samples(name, sides.Unit, [.. times[0]], [.. times[1]])];

    private void Measure(int side, Func<string, long, BenchQueue> open)
    {
        string path = context.Path("store");
        Ballast.Take(RawFile.LengthFor(sides.Count));
        using (BenchQueue queue = open(path, sides.Count))
        {
            if (sides.IsPrepared)
                queue.Prepare(RawFile.LengthFor(sides.Count));
            long start = Clock.Now;
            queue.Append(sides.Count);
            _append[side].Add(sides.Value(Clock.Now - start));
            queue.SeekToStart();
            start = Clock.Now;
            ulong sum = queue.Read(sides.Count);
            _read[side].Add(sides.Value(Clock.Now - start));
            Sums.Check(context.Task.Role, sum, Message64.ExpectedSum(sides.Count));
        }

        PeerSides.Delete(path);
    }
}
