using System.Runtime.InteropServices;
using MappedFileQueues.RabbitMQ;

namespace MappedFileQueues.Bench.Bridge;

/// <summary>The numbered messages of these figures: written to a store, and checked in streams and stores.</summary>
internal static class BridgeMessages
{
    public static void Produce(MappedFileQueue queue, long first, long count)
    {
        Message64 message = Message64.Create();
        for (long number = first; number < first + count; number++)
        {
            message.Number = (ulong)number;
            queue.Producer.Produce(MemoryMarshal.AsBytes(new ReadOnlySpan<Message64>(ref message)));
        }
    }

    /// <summary>Broker messages have to hold so many messages, from number 0 on.</summary>
    public static void Check(string figure, IEnumerable<byte[]> bodies, long count)
    {
        long found = 0;
        ulong sum = 0;
        foreach (byte[] body in bodies)
        {
            foreach (EnvelopeRecord record in StreamEnvelope.Parse(body))
            {
                sum += Read(record.Payload.Span).Sum();
                found++;
            }
        }

        Check(figure, found, sum, count);
    }

    /// <summary>A store has to hold so many messages, from number 0 on.</summary>
    public static void Check(string figure, string storePath, long count)
    {
        long found = 0;
        ulong sum = 0;
        using MappedFileReader reader = MappedFileReader.Open(storePath);
        while (reader.TryRead(out ReadOnlySpan<byte> message))
        {
            sum += Read(message).Sum();
            found++;
        }

        Check(figure, found, sum, count);
    }

    public static void Check(string figure, long found, ulong sum, long count)
    {
        if (found != count)
            throw new ToolException($"Messages are missing or doubled: figure={figure}, read={found}, written={count}.");
        Sums.Check(figure, sum, Message64.ExpectedSum(count));
    }

    public static Message64 Read(ReadOnlySpan<byte> message) => MemoryMarshal.Read<Message64>(message);
}
