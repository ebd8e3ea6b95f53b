using System.Diagnostics;

namespace MappedFileQueues.Hosting;

/// <summary>
/// Handles the messages of a queue one by one, in the order of the log; in a group, as its members get them.
/// </summary>
/// <typeparam name="T">The message: the queue's struct, what a deserializer makes, or `ReadOnlyMemory&lt;byte&gt;`.</typeparam>
public interface IMessageHandler<T>
{
    /// <summary>
    /// Handles one message. When it returns, the message is done: the consumer commits it. When it throws, it is called again
    /// with the same message, as the consumer's options say. A process that dies here begins with the same message when it is
    /// started again. In a group some member gets the message again, in this process or another.
    /// </summary>
    /// <param name="message">The message. Bytes are valid until the returned task completes.</param>
    /// <param name="context">Where it is, and at what attempt. Valid until the returned task completes.</param>
    /// <param name="cancellationToken">Cancelled when the application's patience at its end is over, not when the end begins: the
    /// message in hand may be finished.</param>
    /// <returns>A task that completes when the message is handled.</returns>
    ValueTask HandleAsync(T message, ConsumeContext context, CancellationToken cancellationToken);
}

/// <summary>Handles the messages of a queue as they come, many at once when many are there.</summary>
/// <typeparam name="T">The message: the queue's struct, what a deserializer makes, or `ReadOnlyMemory&lt;byte&gt;`.</typeparam>
public interface IMessageBatchHandler<T>
{
    /// <summary>
    /// Handles the messages of a batch, which are committed together when it returns. When it throws, it is called again with the
    /// same batch. When its attempts are used up, it is called once with each message of the batch alone, so that one bad message
    /// does not take the others with it. In a group the messages are given back, and come alone.
    /// </summary>
    /// <param name="messages">The messages; at least one. Valid until the returned task completes.</param>
    /// <param name="context">Where the batch is, and at what attempt. Valid until the returned task completes.</param>
    /// <param name="cancellationToken">As for <see cref="IMessageHandler{T}"/>.</param>
    /// <returns>A task that completes when the messages are handled.</returns>
    ValueTask HandleAsync(ReadOnlyMemory<T> messages, ConsumeContext context, CancellationToken cancellationToken);
}

/// <summary>
/// What a handler learns about the message or the batch in hand. A consumer uses it again for the next one; a test of a handler
/// makes its own.
/// </summary>
public sealed class ConsumeContext
{
    private long _epoch;
    private long _offset;
    private long _nextOffset;
    private int _attempt = 1;
    private int _deliveryCount;
    private MessageHeaders? _headers;
    private Func<MessageHeaders?>? _readHeaders;

    /// <summary>The queue's name in the application.</summary>
    public string QueueName { get; init; } = "";

    /// <summary>The consumer's name; "" for the default consumer. In a group, the group's name.</summary>
    public string ConsumerName { get; init; } = "";

    /// <summary>
    /// How many recoveries after power losses the store has had. Those cut off an end of the log and use its offsets again, so a
    /// message is identified by epoch and offset. The same for all messages while the queue is open.
    /// </summary>
    public long Epoch { get => _epoch; init => _epoch = value; }

    /// <summary>The offset of the message, or of the first one of the batch.</summary>
    public long Offset { get => _offset; init => _offset = value; }

    /// <summary>
    /// The offset after the message or the batch: what is committed when the handler returns. 0 in a group, which commits none.
    /// </summary>
    public long NextOffset { get => _nextOffset; init => _nextOffset = value; }

    /// <summary>
    /// 1 at the first attempt in this process, 2 at the first repetition. The engine keeps no count across processes.
    /// </summary>
    public int Attempt { get => _attempt; init => _attempt = value; }

    /// <summary>
    /// In a group, how often the message was handed out to members of any process, this time included: 1, and one more for each
    /// that died with it or refused it. More than 1: its effect may be there already. 0 for a consumer, which does not count.
    /// </summary>
    public int DeliveryCount { get => _deliveryCount; init => _deliveryCount = value; }

    /// <summary>
    /// The headers of the message, copied when they are first asked for; null when it has none, and for a batch.
    /// </summary>
    public MessageHeaders? Headers { get => _headers ??= _readHeaders?.Invoke(); init => _headers = value; }

    /// <summary>The traces of a batch's messages; null when nobody listens.</summary>
    internal List<ActivityLink>? Links { get; set; }

    internal void Open(long epoch) => _epoch = epoch;

    /// <param name="offset">That of the message or the batch.</param>
    /// <param name="nextOffset">The one after it.</param>
    /// <param name="readHeaders">Reads the headers of the message in hand; null for a batch.</param>
    /// <param name="deliveryCount">How often a group has handed it out.</param>
    internal void MoveTo(long offset, long nextOffset, Func<MessageHeaders?>? readHeaders, int deliveryCount = 0)
    {
        (_offset, _nextOffset, _deliveryCount) = (offset, nextOffset, deliveryCount);
        (_headers, _readHeaders) = (null, readHeaders);
    }

    internal void Try(int attempt) => _attempt = attempt;
}
