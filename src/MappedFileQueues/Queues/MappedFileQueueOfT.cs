using System.Runtime.CompilerServices;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Reading;

namespace MappedFileQueues;

/// <summary>
/// A persistent queue of structs: a directory of memory-mapped files that any process appends to and any process
/// reads. All members may be called from any thread. Two queues on one path in one process are as good as in two.
/// </summary>
/// <typeparam name="T">The message: a struct without references.</typeparam>
public sealed class MappedFileQueue<T> : IDisposable, IAsyncDisposable
    where T : unmanaged
{
    private readonly QueueCore _core;
    private readonly Lock _producerLock = new();
    private readonly Lock _consumerLock = new();
    private MappedFileProducer<T>? _producer;
    private MappedFileConsumer<T>? _consumer;

    /// <summary>Opens the store, making it when it is missing and the options allow it.</summary>
    /// <param name="options">Copied.</param>
    /// <exception cref="ArgumentException">An option is out of range, or the struct has a pointer or a native
    /// integer.</exception>
    /// <exception cref="QueueFormatException">Not a store of this struct, another version, a 1.x folder, foreign files, a
    /// network file system.</exception>
    /// <exception cref="QueueNotFoundException">There is no store, and the options do not allow to make one.</exception>
    /// <exception cref="QueueDiskException">No rights, read-only, a file in its place, a full disk.</exception>
    /// <exception cref="QueueInUseException">Another opener does not come to an end.</exception>
    /// <exception cref="QueueCorruptException">The segment of the last checkpoint is missing.</exception>
    /// <exception cref="MappedFileQueueException">The system gives no thread (not at PageCache, which needs none).</exception>
    public MappedFileQueue(MappedFileQueueOptions options) =>
        _core = new QueueCore(options, StoreKind.Struct, Unsafe.SizeOf<T>(), StructLayoutFingerprint.Of<T>(),
            skipped => CorruptionSkipped?.Invoke(this, skipped));

    /// <summary>
    /// A consumer of this queue has stepped over damage, as <see cref="MappedFileQueueOptions.Corruption"/> says. Raised on the
    /// reading thread, inside of its call, once for each place and consumer; what a handler throws ends that call, which may be
    /// repeated. A handler may use the consumer, and dispose it.
    /// </summary>
    public event EventHandler<CorruptionSkippedEventArgs>? CorruptionSkipped;

    /// <summary>The shared producer, made on first use.</summary>
    public MappedFileProducer<T> Producer
    {
        get
        {
            lock (_producerLock)
                return _producer ??= OpenProducer();
        }
    }

    /// <summary>The default consumer (name ""), made on first use.</summary>
    public MappedFileConsumer<T> Consumer
    {
        get
        {
            lock (_consumerLock)
                return _consumer ??= OpenConsumer("");
        }
    }

    /// <summary>Everything before it is on disk, by whose flush ever.</summary>
    public long ConfirmedOffset => _core.ConfirmedOffset;

    /// <summary>Opens a producer of its own. In Shared mode any number of them; in Exclusive mode only one, anywhere.</summary>
    /// <returns>The producer; disposed with the queue at the latest.</returns>
    /// <exception cref="QueueInUseException">The producers' lock is held against this mode; the message names the
    /// holder.</exception>
    /// <exception cref="QueueCorruptException">The log is damaged, so nothing can be appended.</exception>
    public MappedFileProducer<T> OpenProducer() => _core.Open(() => new MappedFileProducer<T>(_core));

    /// <summary>Opens a consumer under a name.</summary>
    /// <param name="name">Up to 100 of A-Z a-z 0-9 . _ -, compared ignoring case.</param>
    /// <param name="start">Where it begins when the name is new.</param>
    /// <returns>The consumer; disposed with the queue at the latest.</returns>
    /// <exception cref="QueueInUseException">Another consumer holds the name.</exception>
    /// <exception cref="QueueCorruptException">The stored offset is not a frame's start.</exception>
    public MappedFileConsumer<T> OpenConsumer(string name, QueueStart start = default) =>
        OpenConsumer(name, new ConsumerOptions { Start = start });

    /// <inheritdoc cref="OpenConsumer(string, QueueStart)"/>
    /// <param name="name">As there.</param>
    /// <param name="options">Where it begins when the name is new, and what it sees. Of a bare <c>default</c> the other overload
    /// is meant.</param>
    [OverloadResolutionPriority(-1)]
    public MappedFileConsumer<T> OpenConsumer(string name, ConsumerOptions options) =>
        _core.OpenConsumer(name, options, MakeConsumer);

    /// <summary>Opens a consumer under a name, waiting until nobody else holds it.</summary>
    /// <param name="name">As <see cref="OpenConsumer(string, QueueStart)"/>.</param>
    /// <param name="start">As <see cref="OpenConsumer(string, QueueStart)"/>.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>The consumer.</returns>
    public ValueTask<MappedFileConsumer<T>> OpenConsumerAsync(
        string name, QueueStart start = default, CancellationToken cancellationToken = default) =>
        OpenConsumerAsync(name, new ConsumerOptions { Start = start }, cancellationToken);

    /// <inheritdoc cref="OpenConsumerAsync(string, QueueStart, CancellationToken)"/>
    /// <param name="name">As there.</param>
    /// <param name="options">Where it begins when the name is new, and what it sees. Of a bare <c>default</c> the other overload
    /// is meant.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    [OverloadResolutionPriority(-1)]
    public ValueTask<MappedFileConsumer<T>> OpenConsumerAsync(
        string name, ConsumerOptions options, CancellationToken cancellationToken = default) =>
        _core.OpenConsumerAsync(name, options, MakeConsumer, cancellationToken);

    /// <summary>Opens a reader: no name, no lock, no trace.</summary>
    /// <param name="start">Where it begins.</param>
    /// <returns>The reader; the caller disposes it.</returns>
    public MappedFileReader<T> OpenReader(QueueStart start = default)
    {
        _core.ThrowIfDisposed();
        return MappedFileReader<T>.Open(_core.Store.Path, start, _core.Corruption);
    }

    /// <summary>Makes everything that was published before the call survive a power cut, for all processes.</summary>
    /// <returns>The new confirmed offset.</returns>
    /// <exception cref="QueueDiskException">The flush failed: the queue is poisoned in all processes.</exception>
    /// <exception cref="QueuePoisonedException">An earlier flush had failed.</exception>
    public long Flush() => _core.Flush();

    /// <summary>
    /// Completes when everything that is published at the call is on disk, whichever process published it. At every level; calls
    /// at one time share a flush. Allocates nothing. Await the result once.
    /// </summary>
    /// <param name="cancellationToken">Ends the wait; a flush that began goes on.</param>
    /// <returns>The new confirmed offset.</returns>
    /// <exception cref="QueuePoisonedException">A flush of some process has failed.</exception>
    /// <exception cref="InvalidOperationException">This thread has an open claim and would wait for itself.</exception>
    public ValueTask<long> FlushAsync(CancellationToken cancellationToken = default) =>
        _core.FlushAsync(long.MaxValue, cancellationToken);

    /// <summary>A snapshot of the store, read from its files.</summary>
    /// <returns>The snapshot.</returns>
    public MappedFileQueueInfo GetInfo() => _core.GetInfo();

    /// <summary>Ends the producers and consumers of this queue and lets go of the store.</summary>
    public void Dispose() => _core.Dispose();

    /// <inheritdoc cref="Dispose"/>
    /// <returns>Completes when it is done.</returns>
    public ValueTask DisposeAsync() => new(Task.Run(_core.Dispose));

    private MappedFileConsumer<T> MakeConsumer(LogConsumer consumer) => new(_core, consumer);
}
