using MappedFileQueues.RabbitMQ.Connections;
using MappedFileQueues.RabbitMQ.Diagnostics;
using MappedFileQueues.RabbitMQ.Envelopes;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.RabbitMQ.Forwarding;

/// <summary>
/// The attempts of a forwarder: connect, one channel, lock, fence, the stream's end, and then record after record.
/// </summary>
internal sealed class ForwarderLoop(StreamForwarderOptions options, ILogger logger) : BridgeLoop(options, "Forward", logger)
{
    /// <summary>So many times in a row the lock's queue may fail to answer; then it is looked at, and made anew.</summary>
    private const int LockSilencesMax = 3;

    private DeadLetters _deadLetters = new(options);
    private SourceStore? _source;
    private long _published = -1;
    private int _lockSilences;

    protected override long LagBytes => _source is { } source ? Math.Max(0, Published(source) - source.ConfirmedTo) : 0;

    protected override async Task AttemptAsync(bool once, CancellationToken cancellationToken)
    {
        Connecting();
        SourceStore source = OpenSource();
        await using BrokerConnection connection = await BrokerConnection
            .OpenAsync(Addresses.CreateFactory(), options.RequestTimeout, Blocked, cancellationToken).ConfigureAwait(false);
        await StreamQueue.EnsureAsync(connection, options, cancellationToken).ConfigureAwait(false);
        if (_lockSilences >= LockSilencesMax)
        {
            int silences = _lockSilences;
            _lockSilences = 0;
            string removed = await StreamLock
                .RemoveSilentAsync(connection, options, source.StoreId, cancellationToken).ConfigureAwait(false);
            throw new BrokerException(
                $"The lock's queue did not answer {silences} times, although it was empty and nobody used it. It was deleted, "
                + $"and is made anew: queue={removed}.");
        }

        ConfirmedChannel channel = await ConfirmedChannel
            .OpenAsync(connection, options.Window, options.RequestTimeout, cancellationToken).ConfigureAwait(false);
        ConfirmedChannel lockChannel = channel;
        if (PlantedFaults.Has(PlantedFault.LockElsewhere))
        {
            BrokerConnection own = await BrokerConnection
                .OpenAsync(Addresses.CreateFactory(), options.RequestTimeout, _ => { }, cancellationToken).ConfigureAwait(false);
            _ = connection.Lost.Register(() => _ = own.DisposeAsync());
            lockChannel = await ConfirmedChannel
                .OpenAsync(own, 4, options.RequestTimeout, cancellationToken).ConfigureAwait(false);
        }
        StreamLock held = await TakeLockAsync(lockChannel, source.StoreId, cancellationToken).ConfigureAwait(false);
        SetState(BridgeState.Connecting);

        Guid id = Guid.NewGuid();
        StreamTail tail = await StreamTail
            .FindAsync(channel, held, options, source.StoreId, id, OnForeign, cancellationToken).ConfigureAwait(false);
        try
        {
            long from = FindStart(source, tail);
            long? until = once ? source.PublishedOffset : null;
            EnvelopeWriter writer = new(source.StoreId, id, options.PackLength, options.DurableOnly);
            ForwarderSession session = new(options, source, channel, held, _deadLetters, writer, OnDeadLetter, Moved);
            Running(from);
            await RunAsync(session, channel.Window, from, until, cancellationToken).ConfigureAwait(false);
        }
        catch (QueueDeletedException error)
        {
            // The store is not what it was. The next attempt looks at it, and the policy decides.
            throw new BrokerException(error.Message, error);
        }
    }

    private async Task RunAsync(
        ForwarderSession session, PublishWindow window, long from, long? until, CancellationToken cancellationToken)
    {
        try
        {
            await session.RunAsync(from, until, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception error) when (RefusedException.IsIn(error))
        {
            _deadLetters.Refused(Math.Max(from, window.ConfirmedTo), session.SentTo, session.WasCareful);
            throw new BrokerException(error.Message, error);
        }
        catch (OffsetOutOfRangeException error)
        {
            // As for a store that was replaced.
            throw new BrokerException(error.Message, error);
        }
    }

    protected override void Close()
    {
        _source?.Dispose();
        _source = null;
    }

    private async Task<StreamLock> TakeLockAsync(ConfirmedChannel channel, Guid storeId, CancellationToken cancellationToken)
    {
        bool isSilent = false;
        try
        {
            return await StreamLock.TakeAsync(channel, options, storeId, Standby, cancellationToken).ConfigureAwait(false);
        }
        catch (BrokerException error) when (error.IsTimeout && options.Lock == StreamLockKind.Quorum)
        {
            isSilent = true;
            throw;
        }
        finally
        {
            _lockSilences = isSilent ? _lockSilences + 1 : 0;
        }
    }

    private long Published(SourceStore source)
    {
        try
        {
            return _published = source.PublishedOffset;
        }
        catch (Exception error) when (error is MappedFileQueueException or ObjectDisposedException)
        {
            return _published;
        }
    }

    private SourceStore OpenSource()
    {
        if (_source is { } open)
        {
            try
            {
                _ = open.PublishedOffset;
                return open;
            }
            catch (QueueDeletedException error)
            {
                Close();
                Ambiguous(
                    BridgeFault.SourceChanged, error.Message, "Start the forwarder again if the new store is to be forwarded.");
            }
        }

        // What was suspected of another store says nothing about this one.
        _deadLetters = new DeadLetters(options);
        return _source = SourceStore.Open(options);
    }

    /// <summary>
    /// Where to continue. The stream decides; the store only shows whether it still is what the stream knows.
    /// <code>
    /// the stream holds                       the store is           continue
    /// nothing                                new to the name        where its consumer starts
    /// nothing of any store                   partly forwarded       ambiguous: the stream was deleted or emptied
    /// another store                          new to the stream      ambiguous: replaced, or two share the stream
    /// this store, the same epoch             as long or longer      where the stream ends
    /// this store, the same epoch             shorter                ambiguous: restored from a copy
    /// this store, an earlier epoch           cut back by a cut      where the stream ends, if that was on disk; else ambiguous
    /// this store, any of these two           other lengths there    ambiguous: cut back or restored, and written anew
    /// this store, a later epoch              restored               ambiguous
    /// any of these                           younger than that      ambiguous: its retention gave up what the stream lacks
    /// </code>
    /// </summary>
    private long FindStart(SourceStore source, StreamTail tail)
    {
        long cursor = source.Cursor;
        if (PlantedFaults.Has(PlantedFault.CursorTrusted))
            return MoveTo(source, cursor);
        long published = source.PublishedOffset;
        string place = $"store={source.StoreId}, path={options.StorePath}, stream={options.Stream}";
        if (tail.To < 0)
        {
            if (tail.Other is { } other)
            {
                Ambiguous(
                    BridgeFault.SourceChanged,
                    $"The stream holds another store and nothing of this one: {place}, other={other}. The store was replaced, "
                    + "both are to share the stream, or its retention has removed everything of this one.",
                    "Continue (OnSourceChange) if that is meant.");
            }
            else if (cursor > Math.Max(source.StartOffset, source.LogStart))
            {
                Ambiguous(
                    BridgeFault.SourceChanged,
                    $"The stream holds nothing of the store, of which everything before the cursor was forwarded: {place}, "
                    + $"cursor={cursor}. The stream was deleted, or its retention has removed everything.",
                    "For a second stream of a store, name another consumer (ConsumerName). Else continue from the cursor "
                    + "(OnSourceChange), or reset the consumer.");
            }

            return MoveTo(source, cursor);
        }

        bool isSame = tail.Epoch == source.Epoch && tail.To <= published;
        bool isCutBack = tail.Epoch < source.Epoch && tail.IsDurable && tail.To <= published;
        bool isThere = false;
        if (isSame || isCutBack)
        {
            if (source.TryMove(tail.To))
                return tail.To;
            // What was removed meanwhile has no boundaries either.
            if (tail.To < source.LogStart)
                return MoveTo(source, tail.To);
            isThere = true;
        }

        Ambiguous(
            BridgeFault.SourceChanged,
            $"The store is not as the stream knows it: {place}, stream's end={tail.To} of epoch {tail.Epoch}, store's "
            + $"end={published} of epoch {source.Epoch}, cursor={cursor}. "
            + (isThere ? "The stream ends within a message of the store, which was cut back or restored, and written anew. " : "")
            + "Messages between the cursor and the stream's end are in the stream, and may be lost or others in the store.",
            "Continue from the cursor (OnSourceChange), which may repeat some of them.");
        return MoveTo(source, Math.Min(cursor, published));
    }

    private long MoveTo(SourceStore source, long offset)
    {
        long logStart = source.LogStart;
        if (offset < logStart)
        {
            Ambiguous(
                BridgeFault.SourceChanged,
                $"The store does not hold any more what has to be forwarded next: store={source.StoreId}, "
                + $"path={options.StorePath}, stream={options.Stream}, next={offset}, logStart={logStart}. Its retention or a "
                + "trim has removed it.",
                "Continue without it (OnSourceChange).");
            offset = logStart;
        }

        try
        {
            source.Move(offset);
            return offset;
        }
        catch (OffsetOutOfRangeException error) when (offset < source.LogStart)
        {
            // A retention that holds nothing back was quicker. The next attempt looks again.
            throw new BrokerException(error.Message, error);
        }
    }

    private void OnDeadLetter(long offset, int length)
    {
        BridgeMeter.DeadLetter(this);
        BridgeLog.DeadLetter(Logger, options.Stream, offset, length);
    }
}
