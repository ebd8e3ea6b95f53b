using System.Diagnostics;

namespace MappedFileQueues.Hosting.Consumers.Groups;

/// <summary>What a member takes from a queue of messages.</summary>
internal abstract class MessageGroupSource<T>(MappedFileGroupMember member) : GroupSource<T>
{
    private T[] _batch = [];
    private long[] _offsets = [];
    private int _count;
    private UnreadableMessageException? _unreadable;

    public override long Offset => _count > 0 ? _offsets[0] : member.MessageOffset;

    public override ReadOnlyMemory<long> Offsets => _offsets.AsMemory(0, _count);

    public override int DeliveryCount => member.DeliveryCount;

    public override MessageHeaders? Headers => member.Headers;

    public override ValueTask<bool> WaitAsync(CancellationToken cancellationToken) =>
        _unreadable is not null ? new ValueTask<bool>(true) : member.WaitToConsumeAsync(cancellationToken);

    public override bool TryTake(out T message)
    {
        bool found = member.TryConsume(out ReadOnlySpan<byte> bytes);
        BeginRead();
        message = found ? Read(bytes) : default!;
        if (found)
            EndRead(new Span<T>(ref message));
        return found;
    }

    public override int TakeBatch(int countMax, out ReadOnlyMemory<T> messages, List<ActivityLink>? links)
    {
        _count = 0;
        if (Interlocked.Exchange(ref _unreadable, null) is { } unreadable)
            throw unreadable;
        if (_batch.Length < countMax)
            (_batch, _offsets) = (new T[countMax], new long[countMax]);
        int count = 0;
        BeginRead();
        GroupBatch taken = member.ConsumeBatchNow(countMax);
        try
        {
            while (!IsFull && taken.MoveNext())
            {
                _batch[count] = Read(taken.Current);
                _offsets[count++] = taken.Offset;
                BatchLinks.Add(links, links is null ? default : taken.HeadersInPlace);
            }
        }
        catch (UnreadableMessageException error) when (count > 0)
        {
            // It is in hand, and the next batch.
            _unreadable = error;
        }
        finally
        {
            taken.Dispose();
        }

        EndRead(_batch.AsSpan(0, count));
        messages = _batch.AsMemory(0, count);
        return _count = count;
    }

    public override bool IsInHand(long offset) => member.IsInHand(offset);

    public override void Acknowledge(ReadOnlySpan<long> offsets) => member.Acknowledge(offsets);

    public override void Reject(long offset, TimeSpan delay) => member.Reject(offset, delay);

    public override void MoveToLetters(long offset, int attempts, string errorType, string error) =>
        member.MoveToLetters(offset, attempts, errorType, error);

    public override void Flush() => member.Flush();

    public override void Dispose() => member.Dispose();

    /// <summary>Whether a batch takes no further message.</summary>
    protected virtual bool IsFull => false;

    /// <summary>Messages are read from now on.</summary>
    protected virtual void BeginRead()
    {
    }

    /// <summary>Makes a message of its bytes.</summary>
    protected abstract T Read(ReadOnlySpan<byte> bytes);

    /// <summary>All were read.</summary>
    protected virtual void EndRead(Span<T> messages)
    {
    }
}

/// <summary>Each message copied into a buffer that is used again.</summary>
internal sealed class ByteGroupSource(MappedFileGroupMember member) : MessageGroupSource<ReadOnlyMemory<byte>>(member)
{
    private readonly ByteBuffer _buffer = new();

    protected override bool IsFull => _buffer.IsFull;

    protected override void BeginRead() => _buffer.Clear();

    protected override ReadOnlyMemory<byte> Read(ReadOnlySpan<byte> bytes)
    {
        _buffer.Append(bytes);
        return default;
    }

    /// <summary>Only now: the buffer may have moved on the way.</summary>
    protected override void EndRead(Span<ReadOnlyMemory<byte>> messages) => _buffer.CopyTo(messages);
}

/// <summary>What a deserializer makes of them.</summary>
internal sealed class DeserializedGroupSource<T>(MappedFileGroupMember member, IMessageDeserializer<T> deserializer)
    : MessageGroupSource<T>(member)
{
    protected override T Read(ReadOnlySpan<byte> bytes) => UnreadableMessageException.Deserialize(deserializer, bytes);
}
