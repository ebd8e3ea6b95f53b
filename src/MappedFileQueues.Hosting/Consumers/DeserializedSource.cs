using System.Diagnostics;

namespace MappedFileQueues.Hosting.Consumers;

/// <summary>What a deserializer makes of the messages of a queue of messages.</summary>
internal sealed class DeserializedSource<T>(MappedFileConsumer consumer, IMessageDeserializer<T> deserializer) : MessageSource<T>
{
    private T[] _batch = [];

    public override long Offset => consumer.Offset;

    public override long NextOffset => consumer.NextOffset;

    public override long CommittedOffset => consumer.CommittedOffset;

    public override MessageHeaders? Headers => consumer.Headers;

    public override ValueTask<bool> WaitAsync(CancellationToken cancellationToken) =>
        consumer.WaitToConsumeAsync(cancellationToken);

    public override bool TryRead(out T message)
    {
        bool found = consumer.TryConsume(out ReadOnlySpan<byte> bytes);
        message = found ? Deserialize(bytes) : default!;
        return found;
    }

    public override int ReadBatch(
        int countMax,
        CancellationToken cancellationToken,
        out ReadOnlyMemory<T> messages,
        List<ActivityLink>? links)
    {
        if (_batch.Length < countMax)
            _batch = new T[countMax];
        int count = 0;
        while (count < countMax && consumer.TryConsumeNext(count, out ReadOnlySpan<byte> bytes))
        {
            try
            {
                _batch[count] = Deserialize(bytes);
            }
            catch (UnreadableMessageException) when (count > 0)
            {
                PutBack(count);
                break;
            }

            BatchLinks.Add(links, links is null ? default : consumer.HeadersInPlace);
            count++;
            consumer.Advance();
        }

        messages = _batch.AsMemory(0, count);
        return count;
    }

    public override byte[] CopyBytes() => consumer.TryConsume(out ReadOnlySpan<byte> bytes) ? bytes.ToArray() : [];

    public override void Commit() => consumer.Commit();

    public override ValueTask CommitAsync() => consumer.CommitAsync();

    public override void Rewind() => consumer.Rewind();

    public override void Dispose() => consumer.Dispose();

    /// <summary>
    /// Takes the message in hand, which is the first of the next batch, out of the hand: a commit would include it.
    /// </summary>
    private void PutBack(int count)
    {
        consumer.Rewind();
        for (int i = 0; i < count && consumer.TryConsume(out _); i++)
            consumer.Advance();
    }

    private T Deserialize(ReadOnlySpan<byte> bytes) => UnreadableMessageException.Deserialize(deserializer, bytes);
}
