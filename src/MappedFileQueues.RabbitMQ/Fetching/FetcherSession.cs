using System.Diagnostics;
using System.Runtime.ExceptionServices;
using MappedFileQueues.RabbitMQ.Connections;
using MappedFileQueues.RabbitMQ.Envelopes;
using RabbitMQ.Client;

namespace MappedFileQueues.RabbitMQ.Fetching;

/// <summary>
/// Appends what the stream delivers, on the client's thread, in order, until the connection is lost. A message is acknowledged
/// after it was appended; that only asks the broker for more, because the place is kept here.
/// </summary>
internal sealed class FetcherSession(
    StreamFetcherOptions options,
    TargetStore target,
    BrokerConnection connection,
    IChannel channel,
    Action onRunning,
    Action<BridgeFault, string, string> onAmbiguous,
    Action<long, string> onForeign,
    Action<long, long> onMoved) : AsyncDefaultBasicConsumer(channel)
{
    private const int AckIntervalMax = 100;

    private static readonly TimeSpan s_look = TimeSpan.FromMilliseconds(200);

    /// <summary>The broker ends a channel that leaves a message without an acknowledgement for half an hour.</summary>
    private static readonly TimeSpan s_ackTime = TimeSpan.FromSeconds(1);

    /// <summary>How long the end of a stream that brings nothing new is looked at.</summary>
    private static readonly TimeSpan s_endLook = TimeSpan.FromSeconds(1);

    private readonly Lock _lock = new();

    /// <summary>One acknowledgement at a time: the broker takes an earlier one after a later one for a mistake.</summary>
    private readonly SemaphoreSlim _acknowledging = new(1, 1);
    private readonly int _ackInterval = Math.Min(AckIntervalMax, options.Prefetch / 2);
    private readonly Continuity _continuity = new(options.Stream, target, (fault, change, remedy) =>
    {
        onAmbiguous(fault, change, remedy);
        target.ForgetAppended();
    });
    private readonly long _last = target.StreamOffset;
    private ExceptionDispatchInfo? _failure;
    private bool _hasFirst;
    private int _unacknowledged;
    private ulong _tag;
    private long _progressTime;

    public async Task RunAsync(CancellationToken cancellationToken)
    {
        try
        {
            // From the last message that is done, to see that it is still the same stream.
            object place = _last >= 0 ? _last : "first";
            await StreamQueue.ReadAsync(connection, this, options.Stream, options.Prefetch, place, cancellationToken)
                .ConfigureAwait(false);
            lock (_lock)
                _progressTime = Stopwatch.GetTimestamp();
            if (_last < 0)
                onRunning();
            long ackTime = Stopwatch.GetTimestamp();
            while (true)
            {
                if (Look())
                    await LookAtEndAsync(cancellationToken).ConfigureAwait(false);
                if (Stopwatch.GetElapsedTime(ackTime) > s_ackTime)
                {
                    await connection.Ask(AcknowledgeAsync(cancellationToken), "acknowledge", options.Stream, cancellationToken)
                        .ConfigureAwait(false);
                    ackTime = Stopwatch.GetTimestamp();
                }

                await Task.Delay(s_look, cancellationToken).ConfigureAwait(false);
            }
        }
        finally
        {
            // Nothing is appended behind the back of the next attempt.
            lock (_lock)
            {
                bool isWhole = _failure is null;
                _failure ??= ExceptionDispatchInfo.Capture(new BrokerException("The session has ended."));
                if (isWhole)
                    target.WritePosition(isLast: true);
            }
        }
    }

    public override async Task HandleBasicDeliverAsync(
        string consumerTag, ulong deliveryTag, bool redelivered, string exchange, string routingKey,
        IReadOnlyBasicProperties properties, ReadOnlyMemory<byte> body, CancellationToken cancellationToken = default)
    {
        bool isDue;
        lock (_lock)
        {
            if (_failure is not null)
                return;
            try
            {
                Take(StreamQueue.OffsetOf(properties), body);
            }
            catch (Exception error)
            {
                _failure = ExceptionDispatchInfo.Capture(error);
                return;
            }

            _tag = deliveryTag;
            isDue = ++_unacknowledged >= _ackInterval;
        }

        if (isDue)
            await AcknowledgeAsync(cancellationToken).ConfigureAwait(false);
    }

    public override Task HandleBasicCancelAsync(string consumerTag, CancellationToken cancellationToken = default)
    {
        connection.Fail(new BrokerException("The broker ended the reading of the stream."));
        return Task.CompletedTask;
    }

    private async Task AcknowledgeAsync(CancellationToken cancellationToken)
    {
        await _acknowledging.WaitAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            ulong tag;
            lock (_lock)
            {
                if (_unacknowledged == 0)
                    return;
                (_unacknowledged, tag) = (0, _tag);
            }

            await Channel.BasicAckAsync(tag, multiple: true, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            _acknowledging.Release();
        }
    }

    /// <summary>Throws if the session is over; returns whether nothing has come for long.</summary>
    private bool Look()
    {
        lock (_lock)
        {
            _failure?.Throw();
            connection.ThrowIfLost();
            target.WritePosition();
            return connection.IsLate(_progressTime);
        }
    }

    /// <summary>
    /// Nothing comes. Mostly the stream holds nothing more, but a broker may forget a reader: RabbitMQ tells it nothing when the
    /// node's part of the stream is removed, and some versions neither when it starts anew (its issues 4133 and 11915).
    /// </summary>
    private async Task LookAtEndAsync(CancellationToken cancellationToken)
    {
        long time;
        long awaited;
        bool isFirst;
        lock (_lock)
        {
            isFirst = _last >= 0 && !_hasFirst;
            (time, awaited) = (_progressTime, isFirst ? _last : target.StreamOffset + 1);
        }

        StreamEnd.Finding found = await StreamEnd
            .LookAsync(
                connection, options.Stream, awaited, IsNew, isFirst ? options.RequestTimeout : s_endLook, cancellationToken)
            .ConfigureAwait(false);
        // What has just been published gets its time to come.
        if (!isFirst && found != StreamEnd.Finding.Nothing)
            await Task.Delay(s_endLook, cancellationToken).ConfigureAwait(false);
        lock (_lock)
        {
            if (_progressTime != time)
                return;
            if (isFirst)
                ThrowIfFirstIsMissing(found);
            if (found != StreamEnd.Finding.Nothing)
            {
                throw new BrokerException(
                    $"The broker does not bring what the stream holds: stream={options.Stream}, next={awaited}.");
            }

            _progressTime = Stopwatch.GetTimestamp();
        }
    }

    /// <summary>
    /// The last message that is done does not come, nor a part of it. A stream that is another one is ambiguous. Else the broker
    /// is behind, and perhaps another node is not.
    /// </summary>
    private void ThrowIfFirstIsMissing(StreamEnd.Finding found)
    {
        if (found == StreamEnd.Finding.HoldsOthers)
        {
            StartAgain(
                $"The stream ends before what was fetched from it: stream={options.Stream}, last={_last}. It was deleted and "
                + "made again, or the broker has lost its end.");
        }

        throw new BrokerException(
            $"The stream does not bring the last message that was fetched from it: stream={options.Stream}, last={_last}. The "
            + "broker is behind, or the stream was deleted and holds nothing new yet.");
    }

    /// <summary>Whether an envelope of the stream holds what was not fetched.</summary>
    private bool IsNew(StreamEnvelope envelope)
    {
        lock (_lock)
        {
            return envelope.Kind == EnvelopeKind.Records
                && (target.PlaceOf(envelope.StoreId) is not { } place || envelope.Epoch > place.Epoch
                    || (envelope.Epoch == place.Epoch && envelope.To > place.To));
        }
    }

    /// <summary>Stops, or continues with the first message of the stream as it is now; what is there already is left
    /// out.</summary>
    private void StartAgain(string change)
    {
        onAmbiguous(BridgeFault.Gap, change, "Fetch into a new store, or continue from its first message (OnSourceChange).");
        target.ForgetPlace();
        throw new BrokerException("The stream is another one than before, and is read from its first message on.");
    }

    private void Take(long streamOffset, ReadOnlyMemory<byte> body)
    {
        if (streamOffset < 0)
            throw StreamQueue.NoStream(options.Stream);
        _progressTime = Stopwatch.GetTimestamp();
        // A chunk may begin before the place that was asked for.
        if (streamOffset < _last)
            return;

        uint checksum = EnvelopeLayout.Identify(body.Span);
        bool isFirst = !_hasFirst;
        if (isFirst)
        {
            _hasFirst = true;
            if (streamOffset == _last)
            {
                if (checksum != target.Checksum)
                {
                    StartAgain(
                        $"The stream is another one than before: stream={options.Stream}, last={_last}. It was deleted and made "
                        + "again.");
                }

                onRunning();
                return;
            }
        }

        StreamEnvelope? envelope = Parse(streamOffset, body);
        long seenTo = _continuity.FindSeen(envelope, streamOffset, isFirst);
        if (isFirst && _last >= 0)
            onRunning();
        (int count, long bytes) = target.Take(envelope, seenTo, streamOffset, checksum);
        if (count > 0)
            onMoved(count, bytes);
        target.WritePosition();
    }

    private StreamEnvelope? Parse(long streamOffset, ReadOnlyMemory<byte> body)
    {
        try
        {
            return StreamEnvelope.Parse(body);
        }
        catch (EnvelopeFormatException error)
        {
            StreamQueue.ThrowIfOfAnotherVersion(options, body, streamOffset, error);
            onForeign(streamOffset, error.Message);
            return null;
        }
    }
}
