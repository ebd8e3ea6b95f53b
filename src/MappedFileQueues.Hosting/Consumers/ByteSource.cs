using System.Diagnostics;

namespace MappedFileQueues.Hosting.Consumers;

/// <summary>
/// The messages of a queue of messages, each copied into a buffer that is used again: the mapping may only be looked at between
/// two calls.
/// </summary>
internal sealed class ByteSource(MappedFileConsumer consumer) : MessageSource<ReadOnlyMemory<byte>>
{
    /// <summary>A batch ends with the message that reaches this length.</summary>
    private const int BatchBytes = 1 << 20;

    private byte[] _buffer = new byte[4096];
    private ReadOnlyMemory<byte>[] _messages = [];
    private int[] _ends = [];

    public override long Offset => consumer.Offset;

    public override long NextOffset => consumer.NextOffset;

    public override long CommittedOffset => consumer.CommittedOffset;

    public override MessageHeaders? Headers => consumer.Headers;

    public override ValueTask<bool> WaitAsync(CancellationToken cancellationToken) =>
        consumer.WaitToConsumeAsync(cancellationToken);

    public override bool TryRead(out ReadOnlyMemory<byte> message)
    {
        bool found = consumer.TryConsume(out ReadOnlySpan<byte> bytes);
        // First: the buffer may move.
        int length = Append(bytes, 0);
        message = _buffer.AsMemory(0, length);
        return found;
    }

    public override int ReadBatch(
        int countMax,
        CancellationToken cancellationToken,
        out ReadOnlyMemory<ReadOnlyMemory<byte>> messages,
        List<ActivityLink>? links)
    {
        if (_messages.Length < countMax)
            (_messages, _ends) = (new ReadOnlyMemory<byte>[countMax], new int[countMax]);
        int count = 0;
        int length = 0;
        while (count < countMax && length < BatchBytes && consumer.TryConsume(out ReadOnlySpan<byte> bytes))
        {
            _ends[count++] = length = Append(bytes, length);
            AddLink(links, links is null ? default : consumer.HeadersInPlace);
            consumer.Advance();
        }

        // Only now: the buffer may have moved on the way.
        for (int i = 0; i < count; i++)
        {
            int start = i == 0 ? 0 : _ends[i - 1];
            _messages[i] = _buffer.AsMemory(start, _ends[i] - start);
        }

        messages = _messages.AsMemory(0, count);
        return count;
    }

    public override byte[] CopyBytes() => consumer.TryConsume(out ReadOnlySpan<byte> bytes) ? bytes.ToArray() : [];

    public override void Commit() => consumer.Commit();

    public override ValueTask CommitAsync() => consumer.CommitAsync();

    public override void Rewind() => consumer.Rewind();

    public override void Dispose() => consumer.Dispose();

    private int Append(ReadOnlySpan<byte> bytes, int length)
    {
        int end = checked(length + bytes.Length);
        if (end > _buffer.Length)
            Array.Resize(ref _buffer, (int)Math.Min(Array.MaxLength, Math.Max(end, 2L * _buffer.Length)));
        bytes.CopyTo(_buffer.AsSpan(length));
        return end;
    }
}
