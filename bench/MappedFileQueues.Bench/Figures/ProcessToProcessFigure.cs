using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Messages a second from one process to another that reads after it, spinning, beside a bare one-producer log whose reader
/// takes 64 messages at a time. Warm: blocks
/// and pages are there before the clock starts. Cold: a store that was just made, with the options' own preparing ahead,
/// beside a new, sparse file.
/// </summary>
internal class ProcessToProcessFigure(ChildContext context, bool isCold) : PairFigure(context)
{
    private Message64 _message = Message64.Create();

    protected override IReadOnlyList<(string Name, string Unit)> Values => [(Name, "msg/s")];

    protected override long WarmUpCount => 50_000;

    protected override double[] MeasureRaw(long count)
    {
        if (isCold && IsFirst)
            Ballast.Take(RawFile.LengthFor(count));
        using RawFile file = ShareFile("raw", RawFile.LengthFor(count), allocates: !isCold);
        if (!isCold && IsFirst)
            file.TouchForWriting();
        Rendezvous.Meet();
        if (!isCold && !IsFirst)
            file.TouchForReading();
        Rendezvous.MeetToStart();
        long started = Clock.Now;
        ulong sum = IsFirst ? Copy(file, count) : Follow(file, count);
        double rate = Rendezvous.ExchangeRate(Context.Task.Index, started, Clock.Now, count);
        Sums.Check("raw log", sum, Message64.ExpectedSum(count));
        return [rate];
    }

    protected override double[] MeasureQueue(long count)
    {
        if (isCold && IsFirst)
            Ballast.Take(RawFile.LengthFor(count));
        string path = Context.Path("store");
        MappedFileQueueOptions options = BenchStore.Spinning(path, ProducerMode.Exclusive);
        if (!isCold)
            options.SegmentSize = BenchStore.SegmentLengthFor(count);
        if (!IsFirst)
            Rendezvous.Meet();
        double rate;
        using (StructQueue queue = new(options))
        {
            if (IsFirst)
            {
                queue.AttachProducer();
                if (!isCold)
                    queue.Prepare(RawFile.LengthFor(count));
                Rendezvous.Meet();
            }
            else
            {
                queue.SeekToStart();
            }

            rate = Stream(queue, count);
            Rendezvous.Meet();
        }

        Rendezvous.Meet();
        if (IsFirst)
            BenchStore.Delete(path);
        return [rate];
    }

    private unsafe ulong Copy(RawFile file, long count)
    {
        RawLoops.Copy(file.Start, ref _message, 0, count);
        return Message64.ExpectedSum(count);
    }

    private static unsafe ulong Follow(RawFile file, long count) => RawLoops.FollowInBatches(file.Start, count);
}
