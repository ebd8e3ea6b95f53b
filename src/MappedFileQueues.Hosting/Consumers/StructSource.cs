using System.Diagnostics;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Hosting.Consumers;

/// <summary>The structs of a queue of structs.</summary>
internal sealed class StructSource<T>(MappedFileConsumer<T> consumer) : MessageSource<T>
    where T : unmanaged
{
    private T[] _batch = [];

    public override long Offset => consumer.Offset;

    public override long NextOffset => consumer.NextOffset;

    public override long CommittedOffset => consumer.CommittedOffset;

    public override MessageHeaders? Headers => consumer.Headers;

    public override ValueTask<bool> WaitAsync(CancellationToken cancellationToken) =>
        consumer.WaitToConsumeAsync(cancellationToken);

    public override bool TryRead(out T message) => consumer.TryConsume(out message);

    public override int ReadBatch(
        int countMax,
        CancellationToken cancellationToken,
        out ReadOnlyMemory<T> messages,
        List<ActivityLink>? links)
    {
        if (_batch.Length < countMax)
            _batch = new T[countMax];
        if (links is null && TryConsumeBatch(countMax, cancellationToken, out int count))
        {
            messages = _batch.AsMemory(0, count);
            return count;
        }

        // A batch has no headers, and is none where a message in it cannot be read.
        for (count = 0; count < countMax && consumer.TryConsumeNext(count, out _batch[count]); count++)
        {
            BatchLinks.Add(links, links is null ? default : consumer.HeadersInPlace);
            consumer.Advance();
        }

        messages = _batch.AsMemory(0, count);
        return count;
    }

    public override byte[] CopyBytes() =>
        consumer.TryConsume(out T message) ? MemoryMarshal.AsBytes(new ReadOnlySpan<T>(in message)).ToArray() : [];

    public override void Commit() => consumer.Commit();

    public override ValueTask CommitAsync() => consumer.CommitAsync();

    public override void Rewind() => consumer.Rewind();

    public override void Dispose() => consumer.Dispose();

    private bool TryConsumeBatch(int countMax, CancellationToken cancellationToken, out int count)
    {
        try
        {
            count = consumer.ConsumeBatch(_batch.AsSpan(0, countMax), cancellationToken);
            return true;
        }
        catch (MappedFileQueueException)
        {
            count = 0;
            return false;
        }
    }
}
