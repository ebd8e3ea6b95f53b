using MappedFileQueues.Engine;
using MappedFileQueues.Platform;

namespace MappedFileQueues;

/// <summary>
/// A store of dead letters for whoever settles them: shows the letters, appends their messages to a queue again, or deletes
/// them. It holds nothing between calls, which may come from any thread; one call at a time, of all processes, changes letters.
/// </summary>
/// <remarks>
/// A log removes nothing from its middle. All letters before the offset of one consumer, <see cref="ConsumerName"/>, are settled;
/// those before a chosen one that were not chosen are appended again. A call that changes letters works in groups:
/// <code>
/// 1 append the letters of the group that were not chosen again, each with the offset that it had; flush
/// 2 append the messages of the chosen ones to the queue, each with its letter's offset as sequence; flush
/// 3 commit the consumer after the group
/// </code>
/// Killed before 2: the repetition finds what 1 has appended, and only that. Killed in 2: 1 is on disk, so a letter that was not
/// appended again, and whose sequence the queue has, is in the queue. A repetition of either does nothing twice. A call that
/// throws in 2 settles what the queue has got. Between two letters of one message, of which the first is chosen, 3 is left out.
/// </remarks>
public sealed class DeadLetterStore
{
    /// <summary>The consumer of the letters that says which are settled.</summary>
    public const string ConsumerName = "operator";

    private readonly MappedFileQueueOptions _options;

    /// <summary>Names the store; nothing is opened.</summary>
    /// <param name="options">The path, <see cref="MappedFileQueueOptions.LockTimeout"/> for another process that settles letters,
    /// and what the file system needs. The store is never created.</param>
    /// <exception cref="ArgumentException">The path is empty.</exception>
    public DeadLetterStore(MappedFileQueueOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        _options = GroupLetters.Copy(options);
        _options.LockTimeout = options.LockTimeout;
        _options.CreateIfMissing = false;
    }

    /// <summary>Reads the letters that nobody has settled, the oldest first, without leaving a trace. Copies each.</summary>
    /// <returns>The letters up to the end of when this was called.</returns>
    /// <exception cref="QueueNotFoundException">There is no store.</exception>
    /// <exception cref="QueueFormatException">The store holds something else than dead letters.</exception>
    /// <exception cref="QueueCorruptException">The store is damaged.</exception>
    public IEnumerable<DeadLetter> Read()
    {
        MappedFileQueueInfo info = StoreInspector.Inspect(_options.StorePath);
        long start = StartOf(info);
        UnsettledLetters unsettled = new();
        foreach (DeadLetter letter in ReadAll(start, info.PublishedOffset))
            unsettled.Note(letter);
        return ReadUnsettled();

        // Each enumeration begins anew.
        IEnumerable<DeadLetter> ReadUnsettled()
        {
            UnsettledLetters left = unsettled.Again();
            foreach (DeadLetter letter in ReadAll(start, info.PublishedOffset))
            {
                if (left.Take(letter))
                    yield return letter;
            }
        }
    }

    /// <summary>
    /// Appends the messages of letters to a queue again, with their headers but for the producer's, and settles the letters.
    /// Every consumer of the queue gets them. Letters stay whose message is of another store, or whose message had no room in
    /// the letter. Blocks while consumers of the queue are too far behind.
    /// </summary>
    /// <param name="queue">The queue; open, and the one that the messages come from.</param>
    /// <param name="chooses">Which letters; null for all. Called at least twice a letter, so it must not change its mind.</param>
    /// <param name="fromAnyStore">Also letters whose message was in another store, such as one that was restored since.</param>
    /// <param name="cancellationToken">Ends the call after the message in hand. What it has done stays done.</param>
    /// <returns>The number of letters that were settled.</returns>
    /// <remarks>
    /// Repeat a call that was killed, canceled or lost power: no message is appended to that queue a second time, and none is
    /// lost. The queue keeps a producer with an id for these letters, which takes up one page. Letters that are shown again,
    /// because the consumer was moved back, are not appended again up to the last one that was.
    /// </remarks>
    /// <exception cref="QueueInUseException">Another call settles letters of this store, or the queue is Exclusive and has a
    /// producer.</exception>
    /// <exception cref="InvalidOperationException">A message does not fit the queue.</exception>
    /// <exception cref="OperationCanceledException">The call was canceled.</exception>
    /// <inheritdoc cref="Read" path="/exception"/>
    public long Retry(
        MappedFileQueue queue, Func<DeadLetter, bool>? chooses = null, bool fromAnyStore = false,
        CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(queue);
        return Settle(queue.Engine, chooses, fromAnyStore, cancellationToken).CountOrThrow(cancellationToken);
    }

    /// <typeparam name="T">The queue's struct.</typeparam>
    /// <inheritdoc cref="Retry(MappedFileQueue, Func{DeadLetter, bool}?, bool, CancellationToken)"/>
    public long Retry<T>(
        MappedFileQueue<T> queue, Func<DeadLetter, bool>? chooses = null, bool fromAnyStore = false,
        CancellationToken cancellationToken = default)
        where T : unmanaged
    {
        ArgumentNullException.ThrowIfNull(queue);
        return Settle(queue.Engine, chooses, fromAnyStore, cancellationToken).CountOrThrow(cancellationToken);
    }

    /// <summary>
    /// Settles letters without doing anything. Retention of the store removes settled letters.
    /// </summary>
    /// <param name="chooses">Which letters; null for all. Called at least twice a letter, so it must not change its mind.</param>
    /// <param name="cancellationToken">Ends the call between two letters. What it has done stays done.</param>
    /// <returns>The number of letters that were settled.</returns>
    /// <exception cref="QueueInUseException">Another call settles letters of this store.</exception>
    /// <exception cref="OperationCanceledException">The call was canceled.</exception>
    /// <inheritdoc cref="Read" path="/exception"/>
    public long Delete(Func<DeadLetter, bool>? chooses = null, CancellationToken cancellationToken = default) =>
        Settle(null, chooses, fromAnyStore: true, cancellationToken).CountOrThrow(cancellationToken);

    /// <summary>Settles letters, with or without a queue that gets their messages.</summary>
    internal SettledLetters Settle(
        StoreEngine? queue, Func<DeadLetter, bool>? chooses, bool fromAnyStore, CancellationToken cancellationToken)
    {
        using MappedFileQueue letters = new(_options);
        if (queue is not null && letters.Engine.Store.Meta.StoreId == queue.Store.Meta.StoreId)
            throw new ArgumentException($"The letters are not their queue: path={queue.Store.Path}. Name the queue's store.");
        // Opening the consumer makes it, and retention of a store of anything else would wait for it for ever.
        MappedFileQueueInfo info = StoreInspector.Inspect(_options.StorePath);
        _ = ReadAll(StartOf(info), info.PublishedOffset).FirstOrDefault();
        using MappedFileConsumer consumer = letters.OpenConsumer(
            ConsumerName, new ConsumerOptions { Start = QueueStart.Earliest, OnOutOfRange = OutOfRangePolicy.Earliest });
        // A letter's offset is its sequence in the queue: no power loss may give it to another letter.
        letters.Flush();
        using MappedFileIdempotentProducer? producer = queue?.Open(() => new MappedFileIdempotentProducer(
            queue, $"dead-letters-{letters.Engine.Store.Meta.StoreId:n}"));
        return new LetterSettlement(letters, consumer, queue, producer, Fits).Run(
            ReadAll(consumer.Offset, letters.Engine.Store.ConfirmedOffset), cancellationToken);

        bool Fits(DeadLetter letter) => (queue is null || letter.Message.Length == letter.MessageLength)
            && (fromAnyStore || letter.StoreId == queue!.Store.Meta.StoreId)
            && (chooses is null || chooses(letter));
    }

    /// <summary>Makes a letter of a message of the store.</summary>
    internal static DeadLetter Parse(ReadOnlySpan<byte> message, string path, long offset, MessageHeaders? headers)
    {
        try
        {
            DeadLetter letter = DeadLetter.Parse(message);
            (letter.LetterOffset, letter.Headers) = (offset, headers);
            return letter;
        }
        catch (FormatException error)
        {
            throw new QueueFormatException($"{error.Message} path={SystemPath.Full(path)}, offset={offset}. Name the store of "
                + "an application's or a bridge's dead letters. To step over a message that is none, move its consumer "
                + $"\"{ConsumerName}\" to the next offset.");
        }
    }

    private static long StartOf(MappedFileQueueInfo info) =>
        info.Consumers.FirstOrDefault(consumer => consumer.Name == ConsumerName)?.Offset ?? 0;

    private IEnumerable<DeadLetter> ReadAll(long start, long end)
    {
        using var reader = MappedFileReader.Open(
            _options.StorePath, QueueStart.FromOffset(start), CorruptionPolicy.Throw, OutOfRangePolicy.Earliest);
        while (reader.TryRead(out ReadOnlySpan<byte> message) && reader.MessageOffset < end)
            yield return Parse(message, _options.StorePath, reader.MessageOffset, reader.Headers);
    }
}
