namespace MappedFileQueues.RabbitMQ;

/// <summary>One message of a store, as an envelope carries it.</summary>
/// <param name="Offset">The offset of the message in its store.</param>
/// <param name="Headers">Its header block (docs/FORMAT.md), in the envelope's memory; empty when it has none.</param>
/// <param name="Payload">Its bytes, in the envelope's memory.</param>
public readonly record struct EnvelopeRecord(long Offset, ReadOnlyMemory<byte> Headers, ReadOnlyMemory<byte> Payload)
{
    /// <summary>Reads <see cref="Headers"/>.</summary>
    /// <returns>The headers; null when there are none, or when they are of an unknown form.</returns>
    public MessageHeaders? ToHeaders() =>
        new MessageHeadersView(Headers.Span) is { IsEmpty: false } view ? view.ToHeaders() : null;
}
