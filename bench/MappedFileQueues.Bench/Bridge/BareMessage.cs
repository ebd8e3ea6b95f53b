using System.Runtime.InteropServices;
using MappedFileQueues.RabbitMQ;
using MappedFileQueues.RabbitMQ.Envelopes;

namespace MappedFileQueues.Bench.Bridge;

/// <summary>An envelope that holds one message, as the forwarder makes it for a lone one; for the bare client.</summary>
internal sealed class BareMessage
{
    private readonly EnvelopeWriter _writer = new(Guid.NewGuid(), Guid.NewGuid(), lengthGoal: 0, isDurable: true);
    private Message64 _message = Message64.Create();

    /// <summary>The body; valid until the next one is made.</summary>
    public ReadOnlyMemory<byte> Make(int number)
    {
        long offset = (long)number * Message64.FrameLength;
        _message.Number = (ulong)number;
        _writer.Begin(offset);
        _writer.TryAdd(offset, MemoryMarshal.AsBytes(new ReadOnlySpan<Message64>(ref _message)));
        return _writer.End(EnvelopeKind.Records, epoch: 1, offset + Message64.FrameLength);
    }

    /// <summary>Takes the messages of a body apart.</summary>
    public static void Take(ReadOnlyMemory<byte> body, PacedArrivals arrivals)
    {
        foreach (EnvelopeRecord record in StreamEnvelope.Parse(body))
            arrivals.Take(BridgeMessages.Read(record.Payload.Span));
    }
}
