using System.Runtime.CompilerServices;
using MappedFileQueues.Bench.Figures;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Groups;

/// <summary>
/// Nanoseconds a message of two members of one group, each a process, both together; beside a bare read in which both take their
/// places by fetch-add. What both have read adds up to everything, once.
/// </summary>
/// <param name="context">Its process.</param>
/// <param name="batchLength">How many a call takes; 1: Consume and Acknowledge.</param>
internal sealed class GroupPairFigure(ChildContext context, int batchLength) : PairFigure(context)
{
    /// <summary>Words of the meeting place: the bare loop's place, and what both have read.</summary>
    private const int PlaceWord = 0;
    private const int SumWord = 1;

    /// <summary>Behind the messages: each member stops at the first batch that has one.</summary>
    private const int EndCount = 4 * 64;

    protected override IReadOnlyList<(string Name, string Unit)> Values => [(Name, "ns")];

    protected override long WarmUpCount => 50_000;

    protected override double[] MeasureRaw(long count)
    {
        using RawFile file = ShareFile("raw", RawFile.LengthFor(count), allocates: true);
        if (IsFirst)
        {
            Fill(file, count);
            (Rendezvous.LongWord(PlaceWord), Rendezvous.LongWord(SumWord)) = (0, 0);
        }

        return [Together("bare read of both", count, () => ReadRaw(file, count))];
    }

    protected override double[] MeasureQueue(long count)
    {
        string path = Context.Path("store");
        if (IsFirst)
        {
            using StructQueue filled = new(BenchStore.InOneSegment(path, count + EndCount, ProducerMode.Shared));
            filled.Append(count + EndCount);
            Rendezvous.LongWord(SumWord) = 0;
        }

        Rendezvous.Meet();
        double each;
        using (var queue = new MappedFileQueue<Message64>(BenchStore.InOneSegment(path, count + EndCount, ProducerMode.Shared)))
        {
            using MappedFileGroupMember<Message64> member = queue.OpenGroupMember("bench");
            each = Together(Name, count, () => batchLength == 1
                ? ReadEach(member, (ulong)count)
                : ReadBatches(member, new Message64[batchLength], new long[batchLength], (ulong)count));
        }

        Rendezvous.Meet();
        if (IsFirst)
            BenchStore.Delete(path);
        Rendezvous.Meet();
        return [each];
    }

    /// <summary>Both read; nanoseconds from the first start to the last end, for each message.</summary>
    private double Together(string what, long count, Func<ulong> read)
    {
        Rendezvous.MeetToStart();
        long started = Clock.Now;
        ulong sum = read();
        double rate = Rendezvous.ExchangeRate(Context.Task.Index, started, Clock.Now, count);
        Interlocked.Add(ref Rendezvous.LongWord(SumWord), (long)sum);
        Rendezvous.Meet();
        Sums.Check(what, (ulong)Rendezvous.LongWord(SumWord), Message64.ExpectedSum(count));
        Rendezvous.Meet();
        return 1e9 / rate;
    }

    private static unsafe void Fill(RawFile file, long count)
    {
        Message64 message = Message64.Create();
        RawLoops.Copy(file.Start, ref message, 0, count);
    }

    private unsafe ulong ReadRaw(RawFile file, long count)
    {
        ulong sum = 0;
        while (true)
        {
            long at = Interlocked.Add(ref Rendezvous.LongWord(PlaceWord), batchLength) - batchLength;
            if (at >= count)
                return sum;
            sum += RawLoops.Read(file.Start + (at * Message64.FrameLength), Math.Min(batchLength, count - at));
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong ReadEach(MappedFileGroupMember<Message64> member, ulong end)
    {
        ulong sum = 0;
        while (true)
        {
            member.Consume(out Message64 message);
            member.Acknowledge();
            if (message.Number >= end)
                return sum;
            sum += message.Sum();
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong ReadBatches(
        MappedFileGroupMember<Message64> member, Span<Message64> batch, Span<long> offsets, ulong end)
    {
        ulong sum = 0;
        bool isEnd = false;
        while (!isEnd)
        {
            int read = member.ConsumeBatch(batch, offsets);
            for (int i = 0; i < read; i++)
            {
                if (batch[i].Number < end)
                    sum += batch[i].Sum();
                else
                    isEnd = true;
            }

            member.Acknowledge();
        }

        return sum;
    }
}
