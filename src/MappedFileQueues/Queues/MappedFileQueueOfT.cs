using System.Runtime.CompilerServices;
using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Reading;

namespace MappedFileQueues;

/// <summary>
/// A persistent queue of structs: a directory of memory-mapped files that any process may append to and read. All members may be
/// called from any thread. Opening a path twice in one process works as in two processes.
/// </summary>
/// <typeparam name="T">The message: a struct without references. The store keeps the offset, size and kind of each field, and
/// opening it as another struct is refused. Names do not count, so fields of one kind must never change places: no check finds
/// that. Padding between fields is stored as it is. A struct that has to change begins in a new directory.</typeparam>
public sealed class MappedFileQueue<T> : IDisposable, IAsyncDisposable
    where T : unmanaged
{
    private readonly StoreEngine _core;
    private readonly MappedFileQueueOptions _letterOptions;
    private readonly Lock _producerLock = new();
    private readonly Lock _consumerLock = new();
    private MappedFileProducer<T>? _producer;
    private MappedFileConsumer<T>? _consumer;

    /// <summary>Opens the store. Creates it if it is missing and the options allow that.</summary>
    /// <param name="options">The options; the queue copies them.</param>
    /// <exception cref="ArgumentException">An option is out of range, or the struct has a pointer or a native
    /// integer.</exception>
    /// <exception cref="QueueFormatException">The directory holds no store of this struct, a store of another version, a 1.x
    /// folder or foreign files, or is on a network file system.</exception>
    /// <exception cref="QueueNotFoundException">There is no store, and the options do not allow creating one.</exception>
    /// <exception cref="QueueDiskException">Permission is missing, the file system is read-only, a file is at the path, or
    /// the disk is full.</exception>
    /// <exception cref="QueueInUseException">Another process is opening the store and does not finish.</exception>
    /// <exception cref="QueueCorruptException">The segment of the last checkpoint is missing.</exception>
    /// <exception cref="MappedFileQueueException">The system gives no thread (PageCache needs none).</exception>
    public MappedFileQueue(MappedFileQueueOptions options)
    {
        _core = new StoreEngine(options, StoreKind.Struct, Unsafe.SizeOf<T>(), StructLayoutFingerprint.Of<T>(),
            skipped => CorruptionSkipped?.Invoke(this, skipped),
            skipped => MessagesSkipped?.Invoke(this, skipped),
            deleting => SegmentDeleting?.Invoke(this, deleting));
        _letterOptions = GroupLetters.Copy(options);
    }

    /// <inheritdoc cref="MappedFileQueue.CorruptionSkipped"/>
    public event EventHandler<CorruptionSkippedEventArgs>? CorruptionSkipped;

    /// <inheritdoc cref="MappedFileQueue.MessagesSkipped"/>
    public event EventHandler<MessagesSkippedEventArgs>? MessagesSkipped;

    /// <inheritdoc cref="MappedFileQueue.SegmentDeleting"/>
    public event EventHandler<SegmentDeletingEventArgs>? SegmentDeleting;

    /// <summary>The open store.</summary>
    internal StoreEngine Engine => _core;

    /// <summary>The shared producer, created on first use.</summary>
    public MappedFileProducer<T> Producer
    {
        get
        {
            lock (_producerLock)
                return _producer ??= OpenProducer();
        }
    }

    /// <summary>The default consumer (name ""), created on first use.</summary>
    public MappedFileConsumer<T> Consumer
    {
        get
        {
            lock (_consumerLock)
                return _consumer ??= OpenConsumer("");
        }
    }

    /// <summary>Everything before it is on disk, whichever process flushed it.</summary>
    public long ConfirmedOffset => _core.ConfirmedOffset;

    /// <inheritdoc cref="MappedFileQueue.OpenProducer()"/>
    public MappedFileProducer<T> OpenProducer() => _core.Open(() => new MappedFileProducer<T>(_core));

    /// <inheritdoc cref="MappedFileQueue.OpenProducer(string)"/>
    public MappedFileIdempotentProducer<T> OpenProducer(string id) =>
        _core.Open(() => new MappedFileIdempotentProducer<T>(_core, id));

    /// <inheritdoc cref="MappedFileQueue.DeleteProducer(string)"/>
    public bool DeleteProducer(string id) => _core.DeleteProducer(id);

    /// <inheritdoc cref="MappedFileQueue.OpenConsumer(string, QueueStart)"/>
    public MappedFileConsumer<T> OpenConsumer(string name, QueueStart start = default) =>
        OpenConsumer(name, new ConsumerOptions { Start = start });

    /// <inheritdoc cref="OpenConsumer(string, QueueStart)"/>
    /// <param name="name">As there.</param>
    /// <param name="options">Where it starts when the name is new, and what it sees. A bare <c>default</c> selects the other
    /// overload.</param>
    /// <exception cref="ArgumentOutOfRangeException">A policy of the options is not defined.</exception>
    [OverloadResolutionPriority(-1)]
    public MappedFileConsumer<T> OpenConsumer(string name, ConsumerOptions options) =>
        _core.OpenConsumer(name, options, MakeConsumer);

    /// <inheritdoc cref="MappedFileQueue.OpenConsumerAsync(string, QueueStart, CancellationToken)"/>
    public ValueTask<MappedFileConsumer<T>> OpenConsumerAsync(
        string name, QueueStart start = default, CancellationToken cancellationToken = default) =>
        OpenConsumerAsync(name, new ConsumerOptions { Start = start }, cancellationToken);

    /// <inheritdoc cref="OpenConsumerAsync(string, QueueStart, CancellationToken)"/>
    /// <param name="name">As there.</param>
    /// <param name="options">Where it starts when the name is new, and what it sees. A bare <c>default</c> selects the other
    /// overload.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <exception cref="ArgumentOutOfRangeException">A policy of the options is not defined.</exception>
    [OverloadResolutionPriority(-1)]
    public ValueTask<MappedFileConsumer<T>> OpenConsumerAsync(
        string name, ConsumerOptions options, CancellationToken cancellationToken = default) =>
        _core.OpenConsumerAsync(name, options, MakeConsumer, cancellationToken);

    /// <inheritdoc cref="MappedFileQueue.DeleteConsumer(string)"/>
    public bool DeleteConsumer(string name) => _core.DeleteConsumer(name);

    /// <inheritdoc cref="MappedFileQueue.ResetConsumer(string, QueueStart)"/>
    public void ResetConsumer(string name, QueueStart start) => _ = _core.ResetConsumer(name, start);

    /// <inheritdoc cref="MappedFileQueue.OpenGroupMember(string, GroupOptions)"/>
    public MappedFileGroupMember<T> OpenGroupMember(string group, GroupOptions? options = null)
    {
        options ??= new GroupOptions();
        var letters = new GroupLetters(_core, _letterOptions, options.DeadLetterPath);
        return _core.OpenGroupMember(
            group, options, letters.Send, member => new MappedFileGroupMember<T>(_core, member, letters));
    }

    /// <inheritdoc cref="MappedFileQueue.DeleteGroup(string)"/>
    public bool DeleteGroup(string group) => _core.DeleteGroup(group);

    /// <inheritdoc cref="MappedFileQueue.ResetGroup(string, QueueStart)"/>
    public void ResetGroup(string group, QueueStart start) => _core.ResetGroup(group, start);

    /// <inheritdoc cref="MappedFileQueue.OpenReader(QueueStart)"/>
    public MappedFileReader<T> OpenReader(QueueStart start = default)
    {
        _core.ThrowIfDisposed();
        return MappedFileReader<T>.Open(_core.Store.Path, start, _core.Corruption);
    }

    /// <inheritdoc cref="MappedFileQueue.Flush()"/>
    public long Flush() => _core.Flush();

    /// <inheritdoc cref="MappedFileQueue.Trim(long)"/>
    public long Trim(long beforeOffset) => _core.Trim(beforeOffset);

    /// <summary>
    /// Sets how much of its past the store keeps. The policy is stored in the store, replaces the one before, and survives a
    /// power loss once the call has returned; from then on nothing is removed by the one before. A store without a policy keeps
    /// everything. Every queue that has the store open applies it, at the end of each segment and once a second. A queue in
    /// another process that comes to no new segment notices a first policy only when it is opened again. Any thread.
    /// </summary>
    /// <param name="policy">The policy; without a limit nothing is removed.</param>
    /// <exception cref="ArgumentOutOfRangeException">A limit is negative.</exception>
    /// <exception cref="QueueDiskException">The disk refused; the policy is as before.</exception>
    /// <exception cref="MappedFileQueueException">The system gives no thread. The policy is stored.</exception>
    public void SetRetention(RetentionOptions policy) => _core.SetRetention(policy);

    /// <inheritdoc cref="MappedFileQueue.FlushAsync(CancellationToken)"/>
    public ValueTask<long> FlushAsync(CancellationToken cancellationToken = default) =>
        _core.FlushAsync(long.MaxValue, cancellationToken);

    /// <inheritdoc cref="MappedFileQueue.Snapshot(string, SnapshotOptions)"/>
    public long Snapshot(string target, SnapshotOptions? options = null) => _core.Snapshot(target, options).Offset;

    /// <inheritdoc cref="MappedFileQueue.FindOffset(DateTimeOffset)"/>
    public long FindOffset(DateTimeOffset time) => _core.FindOffset(QueueStart.FromTime(time));

    /// <inheritdoc cref="MappedFileQueue.FindOffset(long)"/>
    public long FindOffset(long messageNumber) => _core.FindOffset(QueueStart.FromMessage(messageNumber));

    /// <inheritdoc cref="MappedFileQueue.FindNumber"/>
    public long FindNumber(long offset) => _core.FindNumber(offset);

    /// <inheritdoc cref="MappedFileQueue.GetInfo()"/>
    public MappedFileQueueInfo GetInfo() => _core.GetInfo();

    /// <inheritdoc cref="MappedFileQueue.GetInfo(bool)"/>
    public MappedFileQueueInfo GetInfo(bool countsMessages) => _core.GetInfo(countsMessages);

    /// <inheritdoc cref="MappedFileQueue.GetStatistics()"/>
    public MappedFileQueueStatistics GetStatistics() => _core.GetStatistics();

    /// <inheritdoc cref="MappedFileQueue.Dispose"/>
    public void Dispose() => _core.Dispose();

    /// <inheritdoc cref="Dispose"/>
    /// <returns>A task that completes when the queue is disposed.</returns>
    public ValueTask DisposeAsync() => new(Task.Run(_core.Dispose));

    private MappedFileConsumer<T> MakeConsumer(LogConsumer consumer) => new(_core, consumer);
}
