namespace MappedFileQueues.RabbitMQ;

/// <summary>A broker message is no envelope, or a damaged one, or one of a later version.</summary>
/// <param name="message">What is wrong with it.</param>
public sealed class EnvelopeFormatException(string message) : MappedFileQueueException(message);
