using System.Diagnostics;

namespace MappedFileQueues.Hosting.Consumers;

/// <summary>
/// The messages of a queue of messages, each copied into a buffer that is used again: the mapping may only be looked at between
/// two calls.
/// </summary>
internal sealed class ByteSource(MappedFileConsumer consumer) : MessageSource<ReadOnlyMemory<byte>>
{
    private readonly ByteBuffer _buffer = new();
    private ReadOnlyMemory<byte>[] _messages = [];

    public override long Offset => consumer.Offset;

    public override long NextOffset => consumer.NextOffset;

    public override long CommittedOffset => consumer.CommittedOffset;

    public override MessageHeaders? Headers => consumer.Headers;

    public override ValueTask<bool> WaitAsync(CancellationToken cancellationToken) =>
        consumer.WaitToConsumeAsync(cancellationToken);

    public override bool TryRead(out ReadOnlyMemory<byte> message)
    {
        bool found = consumer.TryConsume(out ReadOnlySpan<byte> bytes);
        _buffer.Clear();
        _buffer.Append(bytes);
        message = default;
        _buffer.CopyTo(new Span<ReadOnlyMemory<byte>>(ref message));
        return found;
    }

    public override int ReadBatch(
        int countMax,
        CancellationToken cancellationToken,
        out ReadOnlyMemory<ReadOnlyMemory<byte>> messages,
        List<ActivityLink>? links)
    {
        if (_messages.Length < countMax)
            _messages = new ReadOnlyMemory<byte>[countMax];
        _buffer.Clear();
        while (_buffer.Count < countMax && !_buffer.IsFull
            && consumer.TryConsumeNext(_buffer.Count, out ReadOnlySpan<byte> bytes))
        {
            _buffer.Append(bytes);
            BatchLinks.Add(links, links is null ? default : consumer.HeadersInPlace);
            consumer.Advance();
        }

        // Only now: the buffer may have moved on the way.
        _buffer.CopyTo(_messages);
        messages = _messages.AsMemory(0, _buffer.Count);
        return _buffer.Count;
    }

    public override byte[] CopyBytes() => consumer.TryConsume(out ReadOnlySpan<byte> bytes) ? bytes.ToArray() : [];

    public override void Commit() => consumer.Commit();

    public override ValueTask CommitAsync() => consumer.CommitAsync();

    public override void Rewind() => consumer.Rewind();

    public override void Dispose() => consumer.Dispose();
}
