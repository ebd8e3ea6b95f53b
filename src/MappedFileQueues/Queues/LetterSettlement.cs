using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Headers;

namespace MappedFileQueues;

/// <summary>One call that settles letters; <see cref="DeadLetterStore"/> has the steps.</summary>
/// <param name="letters">The store of the letters.</param>
/// <param name="consumer">The consumer that says which are settled.</param>
/// <param name="queue">What gets the messages; null to delete the letters.</param>
/// <param name="producer">The queue's producer for these letters.</param>
/// <param name="fits">Which letters.</param>
internal sealed class LetterSettlement(
    MappedFileQueue letters, MappedFileConsumer consumer, StoreEngine? queue, MappedFileIdempotentProducer? producer,
    Func<DeadLetter, bool> fits)
{
    /// <summary>The most letters of a group, and about the most bytes of its messages, which are in memory.</summary>
    private const int GroupCountMax = 256;
    private const int GroupBytesMax = 16 * 1024 * 1024;

    private readonly UnsettledLetters _unsettled = new();
    private readonly LetterTwins _twins = new();
    private long _last = -1;
    private long _count;

    /// <summary>Settles the letters that fit, up to the last of them.</summary>
    /// <param name="all">The letters after the consumer's offset.</param>
    /// <param name="cancellationToken">Ends the call early.</param>
    public SettledLetters Run(IEnumerable<DeadLetter> all, CancellationToken cancellationToken)
    {
        foreach (DeadLetter letter in all)
        {
            _unsettled.Note(letter);
            if (_twins.Note(letter, fits(letter)))
                _last = letter.LetterOffset;
        }

        try
        {
            while (consumer.Offset <= _last)
            {
                cancellationToken.ThrowIfCancellationRequested();
                if (!SettleGroup(cancellationToken))
                    break;
            }

            return new SettledLetters(_count, IsComplete: true);
        }
        catch (OperationCanceledException) when (cancellationToken.IsCancellationRequested)
        {
            return new SettledLetters(_count, IsComplete: false);
        }
    }

    private bool SettleGroup(CancellationToken cancellationToken)
    {
        List<DeadLetter> chosen = [];
        bool isAppended = false;
        int count = 0;
        for (int bytes = 0; count < GroupCountMax && bytes < GroupBytesMax && consumer.Offset <= _last; count++)
        {
            if (!consumer.TryConsume(out ReadOnlySpan<byte> message, TimeSpan.Zero))
                break;
            DeadLetter letter = DeadLetterStore.Parse(
                message, letters.Engine.Store.Path, consumer.MessageOffset, consumer.Headers);
            consumer.Advance();
            if (!_unsettled.Take(letter))
                continue;
            // The queue has it from a call that was killed: those of its group that were not chosen had been appended again.
            if (SequenceOf(letter) <= producer?.LastSequence)
            {
                _count++;
            }
            else if (fits(letter))
            {
                ThrowIfTooLong(letter);
                chosen.Add(letter);
                bytes += letter.Message.Length;
            }
            else
            {
                letter.RepeatedOffset = letter.LetterOffset;
                letters.Producer.Produce(letter.ToBytes(), new ProduceOptions { Headers = letter.Headers });
                isAppended = true;
            }
        }

        if (isAppended)
            letters.Flush();
        try
        {
            foreach (DeadLetter letter in chosen)
            {
                producer?.TryProduce(
                    letter.Message.Span, SequenceOf(letter),
                    new ProduceOptions { Headers = letter.Headers, CancellationToken = cancellationToken });
            }
        }
        catch
        {
            SettleBegun(chosen);
            throw;
        }

        _count += chosen.Count;
        if (chosen.Count > 0)
            queue?.Flush();
        if (MayCommit(consumer.Offset))
            consumer.Commit(durable: true);
        return count > 0;
    }

    /// <summary>
    /// Settles those of a group that the queue has, when it does not take the next one: another call may choose other letters.
    /// </summary>
    private void SettleBegun(List<DeadLetter> chosen)
    {
        int count = chosen.Count(letter => SequenceOf(letter) <= producer!.LastSequence);
        if (count == 0)
            return;
        _count += count;
        long next = count < chosen.Count ? chosen[count].LetterOffset : consumer.Offset;
        try
        {
            queue!.Flush();
            if (MayCommit(next))
                consumer.Commit(next);
        }
        catch (MappedFileQueueException)
        {
            // The caller gets the first error; the same call finds them in the queue.
        }
    }

    /// <summary>A letter that is settled is forgotten: its second one would count as the first.</summary>
    private bool MayCommit(long offset) => !_twins.IsBetween(offset, _unsettled);

    private static ulong SequenceOf(DeadLetter letter) => (ulong)letter.LetterOffset + 1;

    private void ThrowIfTooLong(DeadLetter letter)
    {
        if (queue is null)
            return;
        int structSize = queue.Store.Meta.StructSize;
        int lengthMax = FrameHeader.PayloadLimit(queue.Store.Meta.SegmentLength) - HeaderBlock.LengthMax;
        if (structSize > 0 ? letter.Message.Length != structSize : letter.Message.Length > lengthMax)
        {
            throw new InvalidOperationException(
                $"The message of a letter does not fit the queue: letter={letter.LetterOffset}, length={letter.Message.Length}, "
                + (structSize > 0 ? $"structSize={structSize}" : $"longest={lengthMax}")
                + $", path={queue.Store.Path}. Choose other letters, or a queue that takes it.");
        }
    }
}

/// <summary>Which of the letters after the consumer's offset nobody has settled.</summary>
internal sealed class UnsettledLetters
{
    private readonly HashSet<LetterMessage> _seen = [];
    private HashSet<long> _repeated = [];

    /// <summary>To take the same letters from the first one on.</summary>
    public UnsettledLetters Again() => new() { _repeated = _repeated };

    /// <summary>Whether a letter was appended again.</summary>
    public bool IsRepeated(long offset) => _repeated.Contains(offset);

    /// <summary>Notes whether a letter was appended again: all are noted before the first is taken.</summary>
    public void Note(DeadLetter letter)
    {
        if (letter.RepeatedOffset is { } offset)
            _repeated.Add(offset);
    }

    /// <summary>
    /// False for a letter that was appended again by a call that was killed, and for the second letter of one message: a consumer
    /// that is killed after its letter, and before it continues, sends it twice.
    /// </summary>
    public bool Take(DeadLetter letter) => !IsRepeated(letter.LetterOffset)
        && (LetterMessage.Of(letter) is not { } message || _seen.Add(message));
}

/// <summary>The letters of one message of which the first is chosen: they are settled together.</summary>
internal sealed class LetterTwins
{
    private readonly Dictionary<LetterMessage, long> _chosen = [];
    private readonly List<(long First, long Second)> _twins = [];

    /// <summary>Notes a letter; true when it is chosen, or the second one of a message that is.</summary>
    public bool Note(DeadLetter letter, bool isChosen)
    {
        if (LetterMessage.Of(letter) is not { } message)
            return isChosen;
        if (_chosen.TryGetValue(message, out long first))
            _twins.Add((first, letter.LetterOffset));
        else if (!isChosen)
            return false;
        _chosen[message] = letter.LetterOffset;
        return true;
    }

    /// <summary>Whether an offset is after the first letter of a message and not after its second.</summary>
    public bool IsBetween(long offset, UnsettledLetters unsettled) => _twins.Exists(
        twin => twin.First < offset && offset <= twin.Second && !unsettled.IsRepeated(twin.First));
}

/// <summary>The message that a letter is of, as its consumer had it.</summary>
internal readonly record struct LetterMessage(Guid StoreId, long Epoch, long Offset, string Consumer)
{
    /// <summary>Null for a letter that does not say which store its message was in.</summary>
    public static LetterMessage? Of(DeadLetter letter) => letter.StoreId == Guid.Empty
        ? null
        : new LetterMessage(letter.StoreId, letter.Epoch, letter.Offset, letter.Consumer);
}

/// <summary>What a call that settles letters has done.</summary>
internal readonly record struct SettledLetters(long Count, bool IsComplete)
{
    /// <summary>The number of letters, unless the call was canceled.</summary>
    public long CountOrThrow(CancellationToken cancellationToken) =>
        IsComplete ? Count : throw new OperationCanceledException(cancellationToken);
}
