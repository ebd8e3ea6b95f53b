using System.Runtime.CompilerServices;
using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Opening;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Platform;

namespace MappedFileQueues;

/// <summary>
/// A persistent queue of messages of any length: a directory of memory-mapped files that any process may append to and read. All
/// members may be called from any thread. Opening a path twice in one process works as in two processes.
/// </summary>
public sealed class MappedFileQueue : IDisposable, IAsyncDisposable
{
    private readonly StoreEngine _core;
    private readonly MappedFileQueueOptions _letterOptions;
    private readonly Lock _producerLock = new();
    private readonly Lock _consumerLock = new();
    private MappedFileProducer? _producer;
    private MappedFileConsumer? _consumer;

    /// <summary>Opens the store. Creates it if it is missing and the options allow that.</summary>
    /// <param name="options">The options; the queue copies them.</param>
    /// <exception cref="ArgumentException">An option is out of range.</exception>
    /// <exception cref="QueueFormatException">The directory holds no store of messages, a store of another version, a 1.x folder
    /// or foreign files, or is on a network file system.</exception>
    /// <exception cref="QueueNotFoundException">There is no store, and the options do not allow creating one.</exception>
    /// <exception cref="QueueDiskException">Permission is missing, the file system is read-only, a file is at the path, or
    /// the disk is full.</exception>
    /// <exception cref="QueueInUseException">Another process is opening the store and does not finish.</exception>
    /// <exception cref="QueueCorruptException">The segment of the last checkpoint is missing.</exception>
    /// <exception cref="MappedFileQueueException">The system gives no thread (PageCache needs none).</exception>
    public MappedFileQueue(MappedFileQueueOptions options)
    {
        _core = new StoreEngine(options, StoreKind.Messages, 0, 0, skipped => CorruptionSkipped?.Invoke(this, skipped),
            skipped => MessagesSkipped?.Invoke(this, skipped),
            deleting => SegmentDeleting?.Invoke(this, deleting));
        _letterOptions = GroupLetters.Copy(options);
    }

    /// <summary>
    /// Raised when a consumer of this queue has stepped over damage, as <see cref="MappedFileQueueOptions.Corruption"/> allows.
    /// It is raised once for each position and consumer, on the reading thread, inside its call. An exception of a handler ends
    /// that call, which may be repeated. A handler may use the consumer and may dispose it.
    /// </summary>
    public event EventHandler<CorruptionSkippedEventArgs>? CorruptionSkipped;

    /// <summary>
    /// Raised when a consumer has skipped messages that were removed before it read them, as its
    /// <see cref="ConsumerOptions.OnOutOfRange"/> says. It is raised as <see cref="CorruptionSkipped"/> is.
    /// </summary>
    public event EventHandler<MessagesSkippedEventArgs>? MessagesSkipped;

    /// <summary>
    /// Raised before this queue removes a segment (<see cref="SetRetention"/>, <see cref="Trim"/>), for archiving, once for each
    /// segment. It is raised on the thread that removes, a background thread except in <see cref="Trim"/>, without any lock. An
    /// exception of a handler keeps the segment: it is raised again about a second later, <see cref="GetInfo()"/> shows it, and
    /// <see cref="Trim"/> throws it. A handler must not dispose the queue, and cannot call <see cref="Trim"/>. Every process
    /// that has the store open removes segments, and each raises only its own event.
    /// </summary>
    public event EventHandler<SegmentDeletingEventArgs>? SegmentDeleting;

    /// <summary>The open store.</summary>
    internal StoreEngine Engine => _core;

    /// <summary>The shared producer, created on first use.</summary>
    public MappedFileProducer Producer
    {
        get
        {
            lock (_producerLock)
                return _producer ??= OpenProducer();
        }
    }

    /// <summary>The default consumer (name ""), created on first use.</summary>
    public MappedFileConsumer Consumer
    {
        get
        {
            lock (_consumerLock)
                return _consumer ??= OpenConsumer("");
        }
    }

    /// <summary>Everything before it is on disk, whichever process flushed it.</summary>
    public long ConfirmedOffset => _core.ConfirmedOffset;

    /// <summary>Opens a queue of messages.</summary>
    /// <param name="options">The options; the queue copies them.</param>
    /// <returns>The queue.</returns>
    public static MappedFileQueue Create(MappedFileQueueOptions options) => new(options);

    /// <summary>Opens a queue of structs.</summary>
    /// <typeparam name="T">The message.</typeparam>
    /// <param name="options">The options; the queue copies them.</param>
    /// <returns>The queue.</returns>
    public static MappedFileQueue<T> Create<T>(MappedFileQueueOptions options)
        where T : unmanaged => new(options);

    /// <summary>
    /// Deletes a store with all its messages; refused while a process is attached. A missing store is not an error.
    /// </summary>
    /// <param name="storePath">The store's directory.</param>
    /// <exception cref="QueueInUseException">A process is attached; the message names it.</exception>
    /// <exception cref="QueueFormatException">The directory holds no store.</exception>
    public static void Delete(string storePath)
    {
        ArgumentException.ThrowIfNullOrWhiteSpace(storePath);
        StoreDeletion.Delete(SystemPath.Full(storePath));
    }

    /// <summary>Opens another producer. Shared mode allows any number; Exclusive mode allows one across all processes.</summary>
    /// <returns>The producer; the queue disposes it at the latest when it is disposed itself.</returns>
    /// <exception cref="QueueInUseException">A producer elsewhere holds the producers' lock in a conflicting mode; the message
    /// names the holder.</exception>
    /// <exception cref="QueueCorruptException">The log is damaged, so nothing can be appended.</exception>
    public MappedFileProducer OpenProducer() => _core.Open(() => new MappedFileProducer(_core));

    /// <summary>
    /// Opens a producer with an id, which tells repetitions apart: it continues after the last sequence that the id has in the
    /// log. Reads the log from where the producer's file ends, usually what is not on disk yet.
    /// </summary>
    /// <param name="id">1 to 100 characters of A-Z a-z 0-9 . _ -, compared ignoring case.</param>
    /// <returns>The producer; the queue disposes it at the latest when it is disposed itself.</returns>
    /// <exception cref="ArgumentException">No producer can have this id.</exception>
    /// <exception cref="QueueInUseException">A producer of this or another process holds the id, or the producers' lock in a
    /// conflicting mode, and did so for <see cref="MappedFileQueueOptions.LockTimeout"/>.</exception>
    /// <exception cref="QueueCorruptException">The producer's file, or the log, is damaged.</exception>
    /// <exception cref="QueueDiskException">The disk refused.</exception>
    public MappedFileIdempotentProducer OpenProducer(string id) =>
        _core.Open(() => new MappedFileIdempotentProducer(_core, id));

    /// <summary>Forgets a producer with an id: messages that it repeats are appended again.</summary>
    /// <param name="id">As <see cref="OpenProducer(string)"/>.</param>
    /// <returns>False when there is no such producer.</returns>
    /// <exception cref="ArgumentException">No producer can have this id.</exception>
    /// <exception cref="QueueInUseException">A producer holds the id.</exception>
    /// <exception cref="QueueDiskException">The disk refused; the producer may be forgotten all the same.</exception>
    public bool DeleteProducer(string id) => _core.DeleteProducer(id);

    /// <summary>Opens a consumer under a name. When it returns, the consumer survives a power loss.</summary>
    /// <param name="name">Up to 100 characters of A-Z a-z 0-9 . _ -, compared ignoring case.</param>
    /// <param name="start">Where it starts when the name is new.</param>
    /// <returns>The consumer; the queue disposes it at the latest when it is disposed itself.</returns>
    /// <exception cref="QueueInUseException">Another consumer holds the name.</exception>
    /// <exception cref="QueueCorruptException">The stored offset is damaged, or not a frame's start. Nothing moves it but
    /// ResetConsumer.</exception>
    /// <exception cref="QueueDiskException">The stored offset cannot be written or flushed.</exception>
    public MappedFileConsumer OpenConsumer(string name, QueueStart start = default) =>
        OpenConsumer(name, new ConsumerOptions { Start = start });

    /// <inheritdoc cref="OpenConsumer(string, QueueStart)"/>
    /// <param name="name">As there.</param>
    /// <param name="options">Where it starts when the name is new, and what it sees. A bare <c>default</c> selects the other
    /// overload.</param>
    /// <exception cref="ArgumentOutOfRangeException">A policy of the options is not defined.</exception>
    [OverloadResolutionPriority(-1)]
    public MappedFileConsumer OpenConsumer(string name, ConsumerOptions options) =>
        _core.OpenConsumer(name, options, MakeConsumer);

    /// <summary>Opens a consumer under a name, and waits until no other consumer holds it.</summary>
    /// <param name="name">As <see cref="OpenConsumer(string, QueueStart)"/>.</param>
    /// <param name="start">As <see cref="OpenConsumer(string, QueueStart)"/>.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>The consumer.</returns>
    public ValueTask<MappedFileConsumer> OpenConsumerAsync(
        string name, QueueStart start = default, CancellationToken cancellationToken = default) =>
        OpenConsumerAsync(name, new ConsumerOptions { Start = start }, cancellationToken);

    /// <inheritdoc cref="OpenConsumerAsync(string, QueueStart, CancellationToken)"/>
    /// <param name="name">As there.</param>
    /// <param name="options">Where it starts when the name is new, and what it sees. A bare <c>default</c> selects the other
    /// overload.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <exception cref="ArgumentOutOfRangeException">A policy of the options is not defined.</exception>
    [OverloadResolutionPriority(-1)]
    public ValueTask<MappedFileConsumer> OpenConsumerAsync(
        string name, ConsumerOptions options, CancellationToken cancellationToken = default) =>
        _core.OpenConsumerAsync(name, options, MakeConsumer, cancellationToken);

    /// <summary>
    /// Removes a consumer with its stored offset. A consumer of that name that is opened later is new.
    /// </summary>
    /// <param name="name">As <see cref="OpenConsumer(string, QueueStart)"/>; "" is the default consumer.</param>
    /// <returns>False when there is no such consumer. After true, a power loss does not bring it back.</returns>
    /// <exception cref="ArgumentException">No consumer can have this name.</exception>
    /// <exception cref="QueueInUseException">A consumer of this or another process holds the name, and did so for
    /// <see cref="MappedFileQueueOptions.LockTimeout"/>.</exception>
    /// <exception cref="QueueDiskException">The disk refused; the consumer may be gone all the same.</exception>
    public bool DeleteConsumer(string name) => _core.DeleteConsumer(name);

    /// <summary>
    /// Moves the stored offset of a consumer that is not open, or creates the consumer. Mends a stored offset that is damaged, or
    /// whose messages were removed. The move survives a power loss once the call has returned.
    /// </summary>
    /// <param name="name">As <see cref="OpenConsumer(string, QueueStart)"/>; "" is the default consumer.</param>
    /// <param name="start">Where the consumer continues, found as for a new one.</param>
    /// <exception cref="ArgumentException">No consumer can have this name.</exception>
    /// <exception cref="OffsetOutOfRangeException">The exact offset is not a frame's start; nothing has moved.</exception>
    /// <exception cref="QueueInUseException">A consumer of this or another process holds the name, and did so for
    /// <see cref="MappedFileQueueOptions.LockTimeout"/>.</exception>
    /// <exception cref="QueueDiskException">The disk refused; the offset may have moved all the same.</exception>
    public void ResetConsumer(string name, QueueStart start) => _ = _core.ResetConsumer(name, start);

    /// <summary>
    /// Opens a member of a group of competing consumers: each message goes to one member. Makes the group when there is none.
    /// When the call returns, the group survives a power loss.
    /// </summary>
    /// <param name="group">1 to 100 characters of A-Z a-z 0-9 . _ -, compared ignoring case. Groups and consumers may have the
    /// same names.</param>
    /// <param name="options">The member's options; null for the defaults.</param>
    /// <returns>The member; the queue disposes it at the latest when it is disposed itself.</returns>
    /// <exception cref="ArgumentException">No group can have this name, or an option is out of range.</exception>
    /// <exception cref="NotSupportedException"><see cref="GroupOptions.KeyShards"/> is set.</exception>
    /// <exception cref="QueueInUseException">The group is being removed, or 4,096 producers and members are open.</exception>
    /// <exception cref="QueueCorruptException">The group's file is damaged. ResetGroup makes it anew.</exception>
    /// <exception cref="QueueDiskException">The disk refused, for example because it is full.</exception>
    public MappedFileGroupMember OpenGroupMember(string group, GroupOptions? options = null)
    {
        options ??= new GroupOptions();
        var letters = new GroupLetters(_core, _letterOptions, options.DeadLetterPath);
        return _core.OpenGroupMember(
            group, options, letters.Send, member => new MappedFileGroupMember(_core, member, letters));
    }

    /// <summary>Removes a group. One of that name that is opened later is new.</summary>
    /// <param name="group">As <see cref="OpenGroupMember"/>.</param>
    /// <returns>False when there is no such group. After true, a power loss does not bring it back.</returns>
    /// <exception cref="ArgumentException">No group can have this name.</exception>
    /// <exception cref="QueueInUseException">The group has members in this or another process, and had them for
    /// <see cref="MappedFileQueueOptions.LockTimeout"/>.</exception>
    /// <exception cref="QueueDiskException">The disk refused; the group may be gone all the same.</exception>
    public bool DeleteGroup(string group) => _core.DeleteGroup(group);

    /// <summary>
    /// Makes a group without members begin anew, or makes it. What was in hand or waited is forgotten. Mends a group whose file
    /// is damaged. Survives a power loss once the call has returned.
    /// </summary>
    /// <param name="group">As <see cref="OpenGroupMember"/>.</param>
    /// <param name="start">Where it continues.</param>
    /// <exception cref="ArgumentException">No group can have this name.</exception>
    /// <exception cref="OffsetOutOfRangeException">The exact offset is not a frame's start; nothing has changed.</exception>
    /// <exception cref="QueueInUseException">The group has members in this or another process, and had them for
    /// <see cref="MappedFileQueueOptions.LockTimeout"/>.</exception>
    /// <exception cref="QueueDiskException">The disk refused; the group may begin anew all the same.</exception>
    public void ResetGroup(string group, QueueStart start) => _core.ResetGroup(group, start);

    /// <summary>Opens a reader, which needs no name, takes no lock and leaves no trace.</summary>
    /// <param name="start">Where it starts.</param>
    /// <returns>The reader; the caller disposes it.</returns>
    public MappedFileReader OpenReader(QueueStart start = default)
    {
        _core.ThrowIfDisposed();
        return MappedFileReader.Open(_core.Store.Path, start, _core.Corruption);
    }

    /// <summary>Flushes everything that was published before the call, by any process, so that it survives a power
    /// loss.</summary>
    /// <returns>The new durable offset.</returns>
    /// <exception cref="QueueDiskException">The flush failed, and the queue is poisoned in all processes.</exception>
    /// <exception cref="QueuePoisonedException">An earlier flush failed.</exception>
    public long Flush() => _core.Flush();

    /// <summary>
    /// Removes the messages before an offset, in whole segments, whether they are flushed or not. Keeps everything that a
    /// consumer with a stored offset has not committed, as far as the store's policy does (<see
    /// cref="RetentionOptions.KeepUnconsumed"/>). Keeps the segment of the last message. Reads that are under way in a removed
    /// segment continue undisturbed. Any thread. Once the call has returned, a power loss does not bring the messages back.
    /// </summary>
    /// <param name="beforeOffset">Any offset; it need not be the start of a message.</param>
    /// <returns>The log start afterwards.</returns>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="beforeOffset"/> is negative.</exception>
    /// <exception cref="QueueDiskException">The disk refused; segments that are not removed yet are kept.</exception>
    /// <exception cref="QueueFormatException">The store's policy is damaged.</exception>
    /// <exception cref="InvalidOperationException">A handler of <see cref="SegmentDeleting"/> calls it.</exception>
    public long Trim(long beforeOffset) => _core.Trim(beforeOffset);

    /// <summary>
    /// Sets how much of its past the store keeps. The policy is stored in the store, replaces the one before, and survives a
    /// power loss once the call has returned; from then on nothing is removed by the one before. A store without a policy keeps
    /// everything. Every queue that has the store open applies it, at the end of each segment and once a second. A queue in
    /// another process that comes to no new segment notices a first policy only when it is opened again. Any thread.
    /// </summary>
    /// <param name="policy">The policy; without a limit nothing is removed. On a full disk what it removes goes first, to make
    /// room for it.</param>
    /// <exception cref="ArgumentOutOfRangeException">A limit is negative.</exception>
    /// <exception cref="QueueDiskException">The disk refused; the policy is as before.</exception>
    /// <exception cref="MappedFileQueueException">The system gives no thread. The policy is stored.</exception>
    public void SetRetention(RetentionOptions policy) => _core.SetRetention(policy);

    /// <summary>
    /// Completes when everything published before the call, by any process, is on disk. Works at every level. Calls at the same
    /// time share a flush. Allocates nothing. Await the result once.
    /// </summary>
    /// <param name="cancellationToken">Ends the wait; a flush that has begun continues.</param>
    /// <returns>The new durable offset.</returns>
    /// <exception cref="QueuePoisonedException">A flush failed, in this process or another.</exception>
    /// <exception cref="InvalidOperationException">This thread has an open claim and would wait for itself.</exception>
    public ValueTask<long> FlushAsync(CancellationToken cancellationToken = default) =>
        _core.FlushAsync(long.MaxValue, cancellationToken);

    /// <summary>
    /// Makes a consistent copy of the store, up to one published offset, while producers and consumers of any process continue.
    /// Flushes first. Full segments are shared with the copy (hard links), which takes neither time nor room; where that cannot
    /// be they are copied, as the last one always is. The copy is a store of its own, with the messages, the consumers and the
    /// retention policy of this one. Nothing that happens to one of the two stores changes the other. Until the call returns, a
    /// crash leaves no store there; an error removes what was made.
    /// </summary>
    /// <param name="target">A directory that is missing or empty, outside the store. What an interrupted snapshot has left there
    /// is replaced.</param>
    /// <param name="options">The options; null for the defaults.</param>
    /// <returns>The end of the copy: it holds every message before this offset, and none after it.</returns>
    /// <exception cref="QueueFormatException">The target is not empty, or is in the store.</exception>
    /// <exception cref="QueueDiskException">A disk refused, for example because it is full.</exception>
    /// <exception cref="QueueCorruptException">The log is damaged, or a segment is missing.</exception>
    /// <exception cref="QueueInUseException">Another process has been opening the store, or the target, for too
    /// long.</exception>
    /// <exception cref="QueuePoisonedException">An earlier flush failed.</exception>
    /// <exception cref="InvalidOperationException">This thread has an open claim and would wait for itself.</exception>
    public long Snapshot(string target, SnapshotOptions? options = null) => _core.Snapshot(target, options).Offset;

    /// <summary>
    /// Where to begin to read so as to miss no message of a time or later: the place of <see cref="QueueStart.FromTime"/>. Reads
    /// the index and the headers of one step of the log; any thread.
    /// </summary>
    /// <param name="time">The time.</param>
    /// <returns>An offset; the end of the published messages when there is none of that time or later.</returns>
    /// <exception cref="QueueCorruptException">Damage is in the way.</exception>
    /// <exception cref="QueueDiskException">The disk cannot deliver a header.</exception>
    public long FindOffset(DateTimeOffset time) => _core.FindOffset(QueueStart.FromTime(time));

    /// <summary>The offset of the message of a number: the place of <see cref="QueueStart.FromMessage"/>.</summary>
    /// <param name="messageNumber">The number; 0 is the first message of the log.</param>
    /// <returns>The offset; the end of the published messages for the number after the last one's.</returns>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="messageNumber"/> is negative.</exception>
    /// <exception cref="OffsetOutOfRangeException">The message was removed, or is not there yet.</exception>
    /// <inheritdoc cref="FindOffset(DateTimeOffset)" path="/exception"/>
    public long FindOffset(long messageNumber) => _core.FindOffset(QueueStart.FromMessage(messageNumber));

    /// <summary>
    /// The number of the message at an offset: how many messages are before it, since the first one of the log or since
    /// <see cref="MappedFileQueueInfo.NumberedFrom"/>. A message keeps its number.
    /// </summary>
    /// <param name="offset">The offset of a message, or the end of the published ones.</param>
    /// <returns>The number.</returns>
    /// <exception cref="OffsetOutOfRangeException">The log does not hold the offset.</exception>
    /// <inheritdoc cref="FindOffset(DateTimeOffset)" path="/exception"/>
    public long FindNumber(long offset) => _core.FindNumber(offset);

    /// <summary>The state of the store now, read from its files.</summary>
    /// <returns>The state.</returns>
    public MappedFileQueueInfo GetInfo() => _core.GetInfo();

    /// <summary>
    /// The state of the store now, and on request <see cref="MappedFileQueueInfo.MessageCount"/> and
    /// <see cref="MappedFileConsumerInfo.LagMessages"/>. These count published messages exactly: neither padding, nor abandoned
    /// claims, nor what is after an open claim. Messages are not verified. The store's index tells their number at places 1 MiB
    /// apart. Without an index, the call reads the header of each frame that the store holds, which takes about 0.3 s for a
    /// gigabyte in the page cache.
    /// </summary>
    /// <param name="countsMessages">Whether messages are counted.</param>
    /// <returns>The state.</returns>
    public MappedFileQueueInfo GetInfo(bool countsMessages) => _core.GetInfo(countsMessages);

    /// <summary>
    /// What this queue object has done itself since it was opened. Unlike <see cref="GetInfo()"/> it reads no file and takes less
    /// than a microsecond. Any thread.
    /// </summary>
    /// <returns>The counters now.</returns>
    public MappedFileQueueStatistics GetStatistics() => _core.GetStatistics();

    /// <summary>
    /// Disposes the producers and consumers of this queue and closes the store. No interrupt of the thread ends it.
    /// </summary>
    /// <exception cref="InvalidOperationException">A handler of <see cref="SegmentDeleting"/> calls it during a
    /// <see cref="Trim"/>.</exception>
    public void Dispose() => _core.Dispose();

    /// <inheritdoc cref="Dispose"/>
    /// <returns>A task that completes when the queue is disposed.</returns>
    public ValueTask DisposeAsync() => new(Task.Run(_core.Dispose));

    private MappedFileConsumer MakeConsumer(LogConsumer consumer) => new(_core, consumer);
}
