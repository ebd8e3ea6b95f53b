using System.Diagnostics;

namespace MappedFileQueues.RabbitMQ.Forwarding;

/// <summary>The store that is forwarded, and its consumer. One caller at a time.</summary>
internal sealed class SourceStore : IDisposable
{
    /// <summary>A commit of a place in the middle walks over the segment, so under load there is one a second.</summary>
    private static readonly TimeSpan s_commitInterval = TimeSpan.FromSeconds(1);

    private readonly MappedFileQueue _queue;
    private readonly string _name;
    private MappedFileConsumer? _consumer;
    private long _confirmedTo;
    private long _commitTime = Stopwatch.GetTimestamp();

    private SourceStore(MappedFileQueue queue, StreamForwarderOptions options)
    {
        (_queue, _name) = (queue, options.ConsumerName);
        MappedFileQueueInfo info = queue.GetInfo();
        (StoreId, Epoch) = (info.StoreId, info.Epoch);
        bool isNew = Find(info) is null;
        try
        {
            _consumer = queue.OpenConsumer(_name);
            StartOffset = isNew ? _consumer.CommittedOffset : 0;
        }
        catch (OffsetOutOfRangeException) when (!isNew)
        {
            // Retention continued without it. Where it continues is decided later, and until then it stays there.
        }

        _confirmedTo = Cursor;
    }

    /// <summary>The consumer, once it has a place that the store holds.</summary>
    public MappedFileConsumer Consumer =>
        _consumer ?? throw new InvalidOperationException("The consumer has not been moved to what the store holds.");

    /// <summary>What the consumer has done; before the store's oldest message if retention continued without it.</summary>
    public long Cursor => _consumer?.CommittedOffset ?? Find(_queue.GetInfo())?.Offset ?? 0;

    /// <summary>Up to where the stream holds the store, as far as is known; before a session, the cursor. Any thread.</summary>
    public long ConfirmedTo => Volatile.Read(ref _confirmedTo);

    public Guid StoreId { get; }

    public long Epoch { get; }

    /// <summary>Where the consumer began, if the store had none of its name before; else 0.</summary>
    public long StartOffset { get; }

    public long LogStart => _queue.GetInfo().LogStart;

    public long PublishedOffset => _queue.GetInfo().PublishedOffset;

    public static SourceStore Open(StreamForwarderOptions options)
    {
        MappedFileQueue queue = new(new MappedFileQueueOptions
        {
            StorePath = options.StorePath,
            CreateIfMissing = false,
            DangerouslyAllowFileSystem = options.DangerouslyAllowFileSystem,
        });
        try
        {
            return new SourceStore(queue, options);
        }
        catch
        {
            queue.Dispose();
            throw;
        }
    }

    /// <summary>Complains if the store was deleted or replaced while it was open.</summary>
    /// <exception cref="QueueDeletedException">It was.</exception>
    public void ThrowIfReplaced() => _ = _queue.GetInfo();

    /// <summary>Moves the consumer; false if no message that the store holds begins or ends at the offset.</summary>
    public bool TryMove(long offset)
    {
        try
        {
            Move(offset);
            return true;
        }
        catch (OffsetOutOfRangeException)
        {
            return false;
        }
    }

    /// <summary>Moves the consumer.</summary>
    /// <exception cref="OffsetOutOfRangeException">No message that the store holds begins or ends at the offset.</exception>
    public void Move(long offset)
    {
        if (_consumer is null)
        {
            _queue.ResetConsumer(_name, QueueStart.FromOffset(offset));
            _consumer = _queue.OpenConsumer(_name);
        }
        else
        {
            _consumer.AdjustOffset(offset);
        }

        Volatile.Write(ref _confirmedTo, offset);
    }

    /// <summary>Returns once everything before an offset is on disk.</summary>
    public void MakeDurable(long to)
    {
        if (_queue.ConfirmedOffset < to)
            _queue.Flush();
    }

    /// <summary>Lets the cursor follow the confirms. It only holds retention back: where to continue, the stream says.</summary>
    /// <param name="to">Up to where the broker has confirmed.</param>
    /// <param name="canCommitAll">Whether no message is in hand, which a commit of all would take for done.</param>
    public void Commit(long to, bool canCommitAll)
    {
        Volatile.Write(ref _confirmedTo, to);
        if (to <= Consumer.CommittedOffset)
            return;
        if (canCommitAll && Consumer.Offset == to)
        {
            Consumer.Commit();
        }
        else if (Stopwatch.GetElapsedTime(_commitTime) >= s_commitInterval)
        {
            Consumer.Commit(to);
            _commitTime = Stopwatch.GetTimestamp();
        }
    }

    public void Dispose() => _queue.Dispose();

    private MappedFileConsumerInfo? Find(MappedFileQueueInfo info) =>
        info.Consumers.FirstOrDefault(consumer => consumer.Name == _name);
}
