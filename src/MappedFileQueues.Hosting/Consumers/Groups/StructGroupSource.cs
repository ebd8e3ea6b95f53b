using System.Diagnostics;

namespace MappedFileQueues.Hosting.Consumers.Groups;

/// <summary>The structs that a member takes from a queue of structs.</summary>
internal sealed class StructGroupSource<T>(MappedFileGroupMember<T> member) : GroupSource<T>
    where T : unmanaged
{
    private T[] _batch = [];
    private long[] _offsets = [];
    private int _count;
    private T _pending;
    private bool _isPending;

    public override long Offset => _count > 0 ? _offsets[0] : member.MessageOffset;

    public override ReadOnlyMemory<long> Offsets => _offsets.AsMemory(0, _count);

    public override int DeliveryCount => _isPending ? 1 : member.DeliveryCount;

    public override MessageHeaders? Headers => member.Headers;

    public override ValueTask<bool> WaitAsync(CancellationToken cancellationToken) =>
        _isPending ? new ValueTask<bool>(true) : member.WaitToConsumeAsync(cancellationToken);

    public override bool TryTake(out T message) => member.TryConsume(out message);

    public override int TakeBatch(int countMax, out ReadOnlyMemory<T> messages, List<ActivityLink>? links)
    {
        if (_batch.Length < countMax)
            (_batch, _offsets) = (new T[countMax], new long[countMax]);
        _count = links is null && !_isPending
            ? member.ConsumeBatchNow(_batch.AsSpan(0, countMax), _offsets)
            : TakeWithLinks(countMax, links);
        messages = _batch.AsMemory(0, _count);
        return _count;
    }

    public override bool IsInHand(long offset) => member.IsInHand(offset);

    public override void Acknowledge(ReadOnlySpan<long> offsets) => member.Acknowledge(offsets);

    public override void Reject(long offset, TimeSpan delay) => member.Reject(offset, delay);

    public override void MoveToLetters(long offset, int attempts, string errorType, string error) =>
        member.MoveToLetters(offset, attempts, errorType, error);

    public override void Flush() => member.Flush();

    public override void Dispose() => member.Dispose();

    /// <summary>A batch has no headers, so one by one. A message that came back waits, in hand, to be the next batch.</summary>
    private int TakeWithLinks(int countMax, List<ActivityLink>? links)
    {
        int count = 0;
        while (count < countMax && (_isPending || member.TryConsume(out _pending)))
        {
            bool isAlone = member.DeliveryCount > 1;
            _isPending = isAlone && count > 0;
            if (_isPending)
                break;
            (_batch[count], _offsets[count]) = (_pending, member.MessageOffset);
            count++;
            BatchLinks.Add(links, member.HeadersInPlace);
            if (isAlone)
                break;
        }

        return count;
    }
}
