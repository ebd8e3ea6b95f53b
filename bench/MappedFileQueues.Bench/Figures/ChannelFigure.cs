using System.Threading.Channels;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Messages a second that one task reads from a queue through AsChannelReader, beside a channel of the framework that holds the
/// same messages in memory.
/// </summary>
internal sealed class ChannelFigure(ChildContext context)
{
    public const string Name = "channel_throughput";

    private const long CountMax = 2_000_000;

    private Message64 _message = Message64.Create();

    public IReadOnlyList<Samples> Measure()
    {
        long count = Math.Min(context.Messages, CountMax);
        WarmUp.UntilCompiled(() =>
        {
            MeasureRaw(500);
            MeasureQueue(500);
        });
        return [Interleaved.Run(Name, "msg/s", context.Repetitions, () => MeasureRaw(count), () => MeasureQueue(count))];
    }

    private double MeasureRaw(long count)
    {
        var channel = Channel.CreateUnbounded<Message64>(
            new UnboundedChannelOptions { SingleReader = true, SingleWriter = true });
        for (long i = 0; i < count; i++)
        {
            _message.Number = (ulong)i;
            channel.Writer.TryWrite(_message);
        }

        return Read("raw channel", channel.Reader, count);
    }

    private double MeasureQueue(long count)
    {
        string path = context.Path("store");
        double rate;
        using (StructQueue queue = new(BenchStore.InOneSegment(path, count, ProducerMode.Shared)))
        {
            queue.Prepare(RawFile.LengthFor(count));
            queue.Append(count);
            rate = Read(Name, queue.Consumer.AsChannelReader(), count);
        }

        BenchStore.Delete(path);
        return rate;
    }

    private static double Read(string name, ChannelReader<Message64> reader, long count)
    {
        long start = Clock.Now;
        ulong sum = SumAsync(reader, count).GetAwaiter().GetResult();
        double nanoseconds = Clock.NanosecondsEach(start, count);
        Sums.Check(name, sum, Message64.ExpectedSum(count));
        return 1e9 / nanoseconds;
    }

    private static async Task<ulong> SumAsync(ChannelReader<Message64> reader, long count)
    {
        ulong sum = 0;
        while (count > 0 && await reader.WaitToReadAsync().ConfigureAwait(false))
        {
            while (count > 0 && reader.TryRead(out Message64 message))
            {
                sum += message.Sum();
                count--;
            }
        }

        return sum;
    }
}
