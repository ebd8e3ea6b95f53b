using System.Runtime.CompilerServices;
using System.Threading.Channels;

namespace MappedFileQueues.Bench.Queues;

/// <summary>The framework's unbounded channel, for one writer and one reader: in memory only, so it is the floor.</summary>
internal sealed class ChannelQueue : BenchQueue
{
    private readonly Channel<Message64> _channel = Channel.CreateUnbounded<Message64>(
        new UnboundedChannelOptions { SingleReader = true, SingleWriter = true });

    private Message64 _message = Message64.Create();

    /// <summary>A channel has nothing to prepare.</summary>
    public override void Prepare(long bytes)
    {
    }

    /// <summary>What was read is gone: the next message is the first.</summary>
    public override void SeekToStart()
    {
    }

    public override void Dispose()
    {
    }

    protected override void AppendChunk(long from, int count) => Append(_channel.Writer, ref _message, from, count);

    protected override ulong ReadChunk(int count) => Read(_channel.Reader, count);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Append(ChannelWriter<Message64> writer, ref Message64 message, long from, int count)
    {
        for (int i = 0; i < count; i++)
        {
            message.Number = (ulong)(from + i);
            writer.TryWrite(message);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong Read(ChannelReader<Message64> reader, int count)
    {
        ulong sum = 0;
        while (count > 0)
        {
            if (reader.TryRead(out Message64 message))
            {
                sum += message.Sum();
                count--;
            }
            else
            {
                reader.WaitToReadAsync().AsTask().GetAwaiter().GetResult();
            }
        }

        return sum;
    }
}
