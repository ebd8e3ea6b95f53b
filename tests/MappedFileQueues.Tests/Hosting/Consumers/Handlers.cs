using System.Collections.Concurrent;
using MappedFileQueues.Hosting;

namespace MappedFileQueues.Tests.Hosting.Consumers;

internal sealed class IgnoringHandler : IMessageHandler<long>
{
    public ValueTask HandleAsync(long message, ConsumeContext context, CancellationToken cancellationToken) => default;
}

/// <summary>What the handlers of a test do and have seen.</summary>
internal sealed class Script
{
    public ConcurrentQueue<(string Message, long Offset, long NextOffset, int Attempt)> Seen { get; } = [];

    /// <summary>The lengths of the batches.</summary>
    public ConcurrentQueue<int> Batches { get; } = [];

    /// <summary>Called with each message; what it throws or returns is the handler's.</summary>
    public Func<string, ConsumeContext, CancellationToken, ValueTask> OnMessage { get; set; } = (_, _, _) => default;

    public ValueTask Play(string message, ConsumeContext context, CancellationToken cancellationToken)
    {
        Seen.Enqueue((message, context.Offset, context.NextOffset, context.Attempt));
        return OnMessage(message, context, cancellationToken);
    }

    public string[] Messages => [.. Seen.Select(seen => seen.Message)];
}

internal sealed class LongHandler(Script script) : IMessageHandler<long>
{
    public ValueTask HandleAsync(long message, ConsumeContext context, CancellationToken cancellationToken) =>
        script.Play($"{message}", context, cancellationToken);
}

internal sealed class LongBatchHandler(Script script) : IMessageBatchHandler<long>
{
    public async ValueTask HandleAsync(
        ReadOnlyMemory<long> messages, ConsumeContext context, CancellationToken cancellationToken)
    {
        script.Batches.Enqueue(messages.Length);
        for (int i = 0; i < messages.Length; i++)
            await script.Play($"{messages.Span[i]}", context, cancellationToken);
    }
}

internal sealed class ByteHandler(Script script) : IMessageHandler<ReadOnlyMemory<byte>>
{
    public ValueTask HandleAsync(
        ReadOnlyMemory<byte> message, ConsumeContext context, CancellationToken cancellationToken) =>
        script.Play(System.Text.Encoding.UTF8.GetString(message.Span), context, cancellationToken);
}

internal sealed class ByteBatchHandler(Script script) : IMessageBatchHandler<ReadOnlyMemory<byte>>
{
    public async ValueTask HandleAsync(
        ReadOnlyMemory<ReadOnlyMemory<byte>> messages, ConsumeContext context, CancellationToken cancellationToken)
    {
        script.Batches.Enqueue(messages.Length);
        for (int i = 0; i < messages.Length; i++)
            await script.Play(System.Text.Encoding.UTF8.GetString(messages.Span[i].Span), context, cancellationToken);
    }
}

internal sealed class TextHandler(Script script) : IMessageHandler<string>
{
    public ValueTask HandleAsync(string message, ConsumeContext context, CancellationToken cancellationToken) =>
        script.Play(message, context, cancellationToken);
}

internal sealed class TextBatchHandler(Script script) : IMessageBatchHandler<string>
{
    public async ValueTask HandleAsync(
        ReadOnlyMemory<string> messages, ConsumeContext context, CancellationToken cancellationToken)
    {
        script.Batches.Enqueue(messages.Length);
        for (int i = 0; i < messages.Length; i++)
            await script.Play(messages.Span[i], context, cancellationToken);
    }
}

/// <summary>Reads text; refuses what begins with an exclamation mark.</summary>
internal sealed class TextDeserializer : IMessageDeserializer<string>
{
    public string Deserialize(ReadOnlySpan<byte> buffer)
    {
        string text = System.Text.Encoding.UTF8.GetString(buffer);
        return text.StartsWith('!') ? throw new FormatException("No text.") : text;
    }
}
