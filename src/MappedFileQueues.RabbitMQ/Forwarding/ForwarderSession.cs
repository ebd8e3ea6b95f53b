using System.Diagnostics;
using MappedFileQueues.RabbitMQ.Envelopes;

namespace MappedFileQueues.RabbitMQ.Forwarding;

/// <summary>
/// Moves records from a store into the stream, on a channel that has the lock and after the barrier, until the connection is
/// lost.
/// <code>
/// step                                               killed after it
/// 1 pack records [from, to), once they are on disk   nothing has happened
/// 2 publish the envelope                             the stream may hold it or not; the next forwarder reads which
/// 3 the broker confirms                              the stream holds it, and the cursor is behind: a hint only
/// 4 the cursor follows                               -
/// </code>
/// </summary>
internal sealed class ForwarderSession(
    StreamForwarderOptions options,
    SourceStore source,
    ConfirmedChannel channel,
    StreamLock heldLock,
    DeadLetters deadLetters,
    EnvelopeWriter writer,
    Action<long, int> onDeadLetter,
    Action<long, long> onMoved)
{
    /// <summary>How long nothing is looked at while nothing happens.</summary>
    private static readonly TimeSpan s_idleTime = TimeSpan.FromSeconds(2);

    private static readonly TimeSpan s_confirmLook = TimeSpan.FromMilliseconds(1);

    private static readonly TimeSpan s_progressLook = TimeSpan.FromMilliseconds(100);

    private readonly MappedFileConsumer _consumer = source.Consumer;
    private long _packTime;
    private long _bytes;
    private int _sentCount;
    private bool _isCareful;
    private bool _isInHand;

    /// <summary>The end of what was published.</summary>
    public long SentTo { get; private set; }

    /// <summary>
    /// Whether a record was on the way alone when the session ended. An envelope without records, at the beginning or where a
    /// record went to the dead letters, says nothing against the record after it when it is refused.
    /// </summary>
    public bool WasCareful => _isCareful && _sentCount > 0;

    /// <summary>Forwards from an offset on.</summary>
    /// <param name="from">Where the stream ends.</param>
    /// <param name="until">Where to end; null: never.</param>
    /// <param name="cancellationToken">Ends it.</param>
    public async Task RunAsync(long from, long? until, CancellationToken cancellationToken)
    {
        SentTo = from;
        writer.Begin(from);
        // Says how far the store is. The next forwarder finds it beside its marker, whatever retention has removed before.
        await PublishAsync(cancellationToken).ConfigureAwait(false);
        while (true)
        {
            channel.ThrowIfLate();
            await heldLock.RenewAsync(cancellationToken).ConfigureAwait(false);
            // Looked at first: what is confirmed from here on is accounted for by the next round.
            bool isConfirmed = channel.Window.IsEmpty;
            Account();
            bool isOver = until <= SentTo;
            if (isOver && isConfirmed)
                return;
            // What was sent alone stays alone until it is confirmed, or nobody would know what was refused.
            _isCareful = deadLetters.IsCareful(SentTo) || (_isCareful && !channel.Window.IsEmpty);
            if (isOver || channel.Window.IsFull || (_isCareful && !channel.Window.IsEmpty))
            {
                await channel.Window.WaitAsync(s_progressLook, cancellationToken).ConfigureAwait(false);
                continue;
            }

            bool isFull = Pack();
            if (writer.Count == 0 && !isFull)
            {
                // Padding at the end of the store is no record.
                if (until is not null && isConfirmed)
                    return;
                if (until is not null)
                    await channel.Window.WaitAsync(s_progressLook, cancellationToken).ConfigureAwait(false);
                else
                    await WaitForRecordAsync(cancellationToken).ConfigureAwait(false);
                continue;
            }

            if (!isFull && await MayWaitAsync(cancellationToken).ConfigureAwait(false))
                continue;
            await PublishAsync(cancellationToken).ConfigureAwait(false);
        }
    }

    /// <summary>Adds what is there; returns whether the envelope has to leave now.</summary>
    private bool Pack()
    {
        while (_isInHand = _consumer.TryConsume(out ReadOnlySpan<byte> record))
        {
            long offset = _consumer.MessageOffset;
            ReadOnlySpan<byte> block = _consumer.HeadersInPlace.Block;
            if (deadLetters.IsHopeless(writer.From, record.Length + block.Length))
            {
                if (writer.Count > 0)
                    return true;
                deadLetters.Keep(source, offset, record, _consumer.Headers, record.Length + block.Length);
                onDeadLetter(offset, record.Length);
                _consumer.Advance();
                _isInHand = false;
                return true;
            }

            if ((_isCareful && writer.Count > 0) || !writer.TryAdd(offset, record, block))
                return true;
            if (writer.Count == 1)
                _packTime = Stopwatch.GetTimestamp();
            _bytes += record.Length;
            _consumer.Advance();
        }

        // One that goes alone goes now. Where nothing is there, nothing goes.
        return _isCareful && writer.Count > 0;
    }

    /// <summary>
    /// While earlier records are on the way, a few that follow may wait for more; a lone one leaves at once.
    /// </summary>
    private async Task<bool> MayWaitAsync(CancellationToken cancellationToken)
    {
        TimeSpan left = options.PackTime - Stopwatch.GetElapsedTime(_packTime);
        if (options.PackLength == 0 || left <= TimeSpan.Zero || channel.Window.IsEmpty)
            return false;
        await channel.Window.WaitAsync(left < s_progressLook ? left : s_progressLook, cancellationToken).ConfigureAwait(false);
        return true;
    }

    private async Task PublishAsync(CancellationToken cancellationToken)
    {
        // What follows may begin after padding. An envelope ends where the reader is, so that no place is left out.
        long to = _consumer.Offset;
        if (options.DurableOnly)
            source.MakeDurable(to);
        int count = writer.Count;
        ReadOnlyMemory<byte> body = writer.End(EnvelopeKind.Records, source.Epoch, to);
        (SentTo, _sentCount) = (to, count);
        await channel.PublishAsync(options.Stream, body, to, count, _bytes, cancellationToken).ConfigureAwait(false);
        _bytes = 0;
        writer.Begin(to);
    }

    private void Account()
    {
        (long messages, long bytes) = channel.Window.TakeConfirmed();
        if (messages > 0)
            onMoved(messages, bytes);
        if (channel.Window.ConfirmedTo >= 0)
            source.Commit(channel.Window.ConfirmedTo, canCommitAll: !_isInHand);
    }

    private async Task WaitForRecordAsync(CancellationToken cancellationToken)
    {
        if (!channel.Window.IsEmpty)
        {
            // A pending wait keeps the consumer from committing, so it comes after the confirms.
            TimeSpan look = options.PackTime < s_progressLook ? options.PackTime : s_progressLook;
            look = look > s_confirmLook ? look : s_confirmLook;
            await channel.Window.WaitAsync(look, cancellationToken).ConfigureAwait(false);
            return;
        }

        Account();
        using CancellationTokenSource either =
            CancellationTokenSource.CreateLinkedTokenSource(cancellationToken, channel.Connection.Lost);
        either.CancelAfter(s_idleTime);
        try
        {
            await _consumer.WaitToConsumeAsync(either.Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (!cancellationToken.IsCancellationRequested)
        {
            // Idle for a while, or the connection is lost; the caller looks. Nobody appends to a store that was deleted.
            source.ThrowIfReplaced();
        }
    }
}
