using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Messages a second of two processes that append to one store at once, beside a bare log in which both take their places by
/// fetch-add. Each process sends half of the messages; both files are prefaulted in both processes.
/// </summary>
internal sealed class SharedProducersFigure(ChildContext context) : PairFigure(context)
{
    private Message64 _message = Message64.Create();

    protected override IReadOnlyList<(string Name, string Unit)> Values => [(Name, "msg/s")];

    protected override long WarmUpCount => 50_000;

    protected override double[] MeasureRaw(long count)
    {
        using RawFile file = ShareFile("raw", RawFile.LengthFor(count), allocates: true);
        file.TouchForWriting();
        if (IsFirst)
            Rendezvous.LongWord(0) = 0;
        Rendezvous.MeetToStart();
        long started = Clock.Now;
        FetchAdd(file, count / 2);
        double rate = Rendezvous.ExchangeRate(Context.Task.Index, started, Clock.Now, count / 2 * 2);
        if (IsFirst)
            CheckRaw(file, count);
        Rendezvous.Meet();
        return [rate];
    }

    protected override double[] MeasureQueue(long count)
    {
        string path = Context.Path("store");
        double rate;
        using (StructQueue queue = new(BenchStore.InOneSegment(path, count, ProducerMode.Shared)))
        {
            queue.Prepare(RawFile.LengthFor(count));
            Rendezvous.MeetToStart();
            long started = Clock.Now;
            queue.Append(count / 2);
            rate = Rendezvous.ExchangeRate(Context.Task.Index, started, Clock.Now, count / 2 * 2);
            if (IsFirst)
                Sums.Check(Name, queue.Read(count / 2 * 2), 2 * Message64.ExpectedSum(count / 2));
            Rendezvous.Meet();
        }

        Rendezvous.Meet();
        if (IsFirst)
            BenchStore.Delete(path);
        Rendezvous.Meet();
        return [rate];
    }

    private unsafe void FetchAdd(RawFile file, long count) =>
        RawLoops.FetchAdd(file.Start, ref Rendezvous.LongWord(0), ref _message, count);

    private static unsafe void CheckRaw(RawFile file, long count) =>
        Sums.Check("raw fetch-add", RawLoops.Read(file.Start, count / 2 * 2), 2 * Message64.ExpectedSum(count / 2));
}
