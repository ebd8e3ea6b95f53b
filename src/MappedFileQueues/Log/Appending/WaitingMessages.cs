namespace MappedFileQueues.Log.Appending;

/// <summary>The copy of what an asynchronous call appends later; see <see cref="MessagesToAppend.Copy"/>.</summary>
internal sealed class WaitingMessages(byte[] bytes, int messageLength, ReadOnlyMemory<byte>[] list, byte[] block)
{
    /// <inheritdoc cref="MessagesToAppend.AppendTo"/>
    public long AppendTo(LogAppender appender) => (list.Length > 0 ? new MessagesToAppend(list, block)
        : messageLength == 0 ? new MessagesToAppend(bytes, block)
        : new MessagesToAppend(bytes, messageLength, block)).AppendTo(appender);
}
