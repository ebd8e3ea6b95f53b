namespace MappedFileQueues.RabbitMQ;

/// <summary>One message of a store, as an envelope carries it.</summary>
/// <param name="Offset">The offset of the message in its store.</param>
/// <param name="Headers">Its headers, in the envelope's memory; empty, because stores have none yet.</param>
/// <param name="Payload">Its bytes, in the envelope's memory.</param>
public readonly record struct EnvelopeRecord(long Offset, ReadOnlyMemory<byte> Headers, ReadOnlyMemory<byte> Payload);
