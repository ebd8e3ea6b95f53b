using System.Runtime.InteropServices;
using DotNext.Threading.Channels;
using MappedFileQueues.Bench.Queues;

namespace MappedFileQueues.Bench.Peers;

/// <summary>
/// PersistentChannel, set up as its documentation says is fastest: one partition that holds all, its room made first. It opens
/// its files to write through: a message and its position are on the disk when WriteAsync returns, and the reader's position
/// when ReadAsync does. It has no other mode.
/// </summary>
/// <param name="path">The folder.</param>
/// <param name="count">How many messages the partition holds.</param>
/// <param name="hasOneWriter">Whether one caller writes at a time.</param>
internal sealed class PersistentChannelQueue(string path, long count, bool hasOneWriter = true) : BenchQueue
{
    private readonly MessageChannel _channel = new(new PersistentChannelOptions
    {
        Location = path,
        PartitionCapacity = (int)count,
        InitialPartitionSize = count * Message64.Length,
        SingleReader = true,
        SingleWriter = hasOneWriter,
    });

    /// <summary>The constructor made the room.</summary>
    public override void Prepare(long bytes)
    {
    }

    /// <summary>What was read is gone: the next message is the first.</summary>
    public override void SeekToStart()
    {
    }

    public override void Dispose() => _channel.Dispose();

    /// <summary>Appends messages, each on the disk before the next.</summary>
    public Task AppendDurably(int messages) => Append(0, messages);

    protected override void AppendChunk(long from, int messages) => Append(from, messages).GetAwaiter().GetResult();

    protected override ulong ReadChunk(int messages) => Read(messages).GetAwaiter().GetResult();

    private async Task Append(long from, int messages)
    {
        Message64 message = Message64.Create();
        for (int i = 0; i < messages; i++)
        {
            message.Number = (ulong)(from + i);
            await _channel.Writer.WriteAsync(message).ConfigureAwait(false);
        }
    }

    private async Task<ulong> Read(int messages)
    {
        ulong sum = 0;
        for (int i = 0; i < messages; i++)
        {
            Message64 message = await _channel.Reader.ReadAsync().ConfigureAwait(false);
            sum += message.Sum();
        }

        return sum;
    }

    private sealed class MessageChannel(PersistentChannelOptions options) : PersistentChannel<Message64, Message64>(options)
    {
        protected override ValueTask SerializeAsync(Message64 input, Stream output, CancellationToken token)
        {
            output.Write(MemoryMarshal.AsBytes(new ReadOnlySpan<Message64>(in input)));
            return ValueTask.CompletedTask;
        }

        protected override ValueTask<Message64> DeserializeAsync(Stream input, CancellationToken token)
        {
            Message64 message = default;
            input.ReadExactly(MemoryMarshal.AsBytes(new Span<Message64>(ref message)));
            return ValueTask.FromResult(message);
        }
    }
}
