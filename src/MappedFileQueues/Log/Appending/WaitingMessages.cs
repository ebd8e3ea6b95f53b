using System.Runtime.InteropServices;

namespace MappedFileQueues.Log.Appending;

/// <summary>
/// The copy of what an asynchronous call appends later: one message, a batch of messages of one size, or a batch of any lengths.
/// </summary>
internal abstract class WaitingMessages
{
    /// <summary>Appends them; returns the first one's offset, or <see cref="LogAppender.Full"/>.</summary>
    public abstract long AppendTo(LogAppender appender);

    public static WaitingMessages Copy(ReadOnlySpan<byte> message) => new One(message.ToArray());

    /// <summary>Copies a batch of messages of one size.</summary>
    public static WaitingMessages Copy(ReadOnlySpan<byte> messages, int messageLength) =>
        new OfOneSize(messages.ToArray(), messageLength);

    /// <summary>Copies a batch of messages of any lengths.</summary>
    public static WaitingMessages Copy(ReadOnlySpan<ReadOnlyMemory<byte>> messages)
    {
        var copies = new ReadOnlyMemory<byte>[messages.Length];
        for (int i = 0; i < copies.Length; i++)
            copies[i] = messages[i].ToArray();
        return new OfAnyLength(copies);
    }

    private sealed class One(byte[] message) : WaitingMessages
    {
        public override long AppendTo(LogAppender appender) =>
            appender.TryAppend(ref MemoryMarshal.GetArrayDataReference(message), message.Length);
    }

    private sealed class OfOneSize(byte[] messages, int messageLength) : WaitingMessages
    {
        public override long AppendTo(LogAppender appender) => appender.AppendBatch(
            ref MemoryMarshal.GetArrayDataReference(messages), messageLength, messages.Length / messageLength);
    }

    private sealed class OfAnyLength(ReadOnlyMemory<byte>[] messages) : WaitingMessages
    {
        public override long AppendTo(LogAppender appender) => appender.AppendBatch(messages);
    }
}
