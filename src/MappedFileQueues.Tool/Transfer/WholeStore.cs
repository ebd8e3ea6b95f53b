using MappedFileQueues.Threads;

namespace MappedFileQueues.Tool.Transfer;

/// <summary>
/// What a store holds when a transfer begins, so that it never chases a fast producer. A message that is not finished may have
/// finished ones after it: it is waited for, and an error when it stays.
/// </summary>
internal sealed class WholeStore : IDisposable
{
    /// <summary>As a snapshot waits.</summary>
    private static readonly TimeSpan s_claimLimit = TimeSpan.FromSeconds(30);

    private readonly ConsumePlan _plan;
    private readonly MessageSource _source;
    private readonly long _end;
    private long _begin = -1;

    public WholeStore(ConsumePlan plan)
    {
        _plan = plan;
        using (var store = ReadOnlyStore.Open(SystemPath.Full(plan.StorePath), verifiesChecksum: false))
        {
            Header = StoreHeader.Of(store.Meta);
            MappedFileQueueInfo info = store.GatherInfo();
            // What was not recovered since a power loss ends with the first claim.
            _end = Math.Max(store.IsOfThisBoot ? info.TailOffset : info.PublishedOffset, store.PassedTo);
        }

        _source = plan.Open();
    }

    public StoreHeader Header { get; }

    /// <inheritdoc cref="MessageSource.MessageOffset"/>
    public long MessageOffset => _source.MessageOffset;

    /// <inheritdoc cref="MessageSource.Headers"/>
    public MessageHeadersView Headers => _source.Headers;

    /// <summary>Reads the next message; false at the end, or when it was told to stop.</summary>
    public bool TryRead(ProgressLine progress, CancellationToken stopped, out ReadOnlySpan<byte> message)
    {
        if (stopped.IsCancellationRequested || !TryReadWaiting(stopped, out message) || _source.MessageOffset >= _end)
        {
            message = default;
            return false;
        }

        _begin = _begin < 0 ? _source.MessageOffset : _begin;
        progress.Report(_source.MessageOffset - _begin, _end - _begin);
        return true;
    }

    public void Dispose() => _source.Dispose();

    private bool TryReadWaiting(CancellationToken stopped, out ReadOnlySpan<byte> message)
    {
        Deadline? limit = null;
        while (!_source.TryRead(TimeSpan.Zero, out message))
        {
            if (_source.DamageAhead is { } damage)
                throw damage;
            if (_source.NextOffset >= _end || stopped.IsCancellationRequested)
                return false;
            long at = _source.NextOffset;
            if (!IsAtClaim())
            {
                if (_source.TryRead(TimeSpan.Zero, out message))
                    return true;
                if (_source.NextOffset == at && !IsAtClaim())
                    throw new ToolException($"Nothing can be read at an offset, and the log continues after it: offset={at}, "
                        + $"path={_plan.StorePath}. Run `mfq verify`.");
                continue;
            }

            limit ??= new Deadline(s_claimLimit);
            if (limit.Value.IsOver)
            {
                throw new ToolException($"A producer has begun a message and does not finish it: offset={_source.NextOffset}, "
                    + $"path={_plan.StorePath}. What is after it was not read; let the producer continue, or end it (`mfq info` "
                    + "shows its process), then try again.");
            }

            Thread.Sleep(10);
        }

        return true;
    }

    private bool IsAtClaim() =>
        StoreInspector.Inspect(_plan.StorePath).OpenClaims.Any(claim => claim.Offset == _source.NextOffset);
}
