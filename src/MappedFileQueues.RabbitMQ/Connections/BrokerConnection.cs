using System.Collections.Concurrent;
using System.Diagnostics;
using System.Net.Sockets;
using MappedFileQueues.RabbitMQ.Diagnostics;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

namespace MappedFileQueues.RabbitMQ.Connections;

/// <summary>
/// One connection, used until the first trouble and then given up. Each wait for the broker has a limit: the client may hang
/// when a broker stops in an orderly way.
/// </summary>
internal sealed class BrokerConnection : IAsyncDisposable
{
    private static readonly TimeSpan s_closePatience = TimeSpan.FromSeconds(2);

    private readonly IConnection _connection;
    private readonly ConcurrentBag<WatchedSocket> _sockets;
    private readonly TimeSpan _patience;
    private readonly CancellationTokenSource _lost = new();
    private Exception? _reason;
    private volatile bool _isBlocked;
    private volatile bool _isGivenUp;
    private long _freeTime;

    private BrokerConnection(
        IConnection connection, ConcurrentBag<WatchedSocket> sockets, TimeSpan patience, Action<string?> onBlocked)
    {
        (_connection, _sockets, _patience) = (connection, sockets, patience);
        connection.ConnectionBlockedAsync += (_, blocked) =>
        {
            _isBlocked = true;
            if (!_isGivenUp)
                onBlocked(blocked.Reason);
            return Task.CompletedTask;
        };
        connection.ConnectionUnblockedAsync += (_, _) =>
        {
            Volatile.Write(ref _freeTime, Stopwatch.GetTimestamp());
            _isBlocked = false;
            if (!_isGivenUp)
                onBlocked(null);
            return Task.CompletedTask;
        };
        connection.ConnectionShutdownAsync += (_, shutdown) =>
        {
            // The broker may deny the virtual host a moment after the client took the connection for open.
            Fail($"The connection ended: {shutdown.ReplyText}", shutdown);
            return Task.CompletedTask;
        };
        // What the broker has agreed to, which may be less than what was asked for.
        TimeSpan silence = 2 * connection.Heartbeat;
        foreach (WatchedSocket socket in sockets)
            socket.Watch(silence, () => Fail(new BrokerException($"The broker was silent for {silence.TotalSeconds} s.")));
    }

    /// <summary>Cancelled once the connection, or a channel of it that matters, is lost.</summary>
    public CancellationToken Lost => _lost.Token;

    /// <summary>Connects.</summary>
    /// <param name="factory">Makes the connection.</param>
    /// <param name="patience">The limit of each wait for the broker.</param>
    /// <param name="onBlocked">Hears why the broker takes no more messages for now, and null once it does again.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    public static async Task<BrokerConnection> OpenAsync(
        ConnectionFactory factory, TimeSpan patience, Action<string?> onBlocked, CancellationToken cancellationToken)
    {
        // The client waits for a broker's greeting without a limit. Only the token ends that, and leaves the socket open.
        ConcurrentBag<WatchedSocket> sockets = [];
        factory.SocketFactory = family =>
        {
            WatchedSocket socket = new(family);
            sockets.Add(socket);
            return socket;
        };
        CancellationTokenSource limit = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken);
        Task<IConnection> opening = Task.Run(() => factory.CreateConnectionAsync(limit.Token), limit.Token);
        try
        {
            BrokerConnection opened = new(
                await opening.WaitAsync(patience, cancellationToken).ConfigureAwait(false), sockets, patience, onBlocked);
            limit.Dispose();
            return opened;
        }
        catch (Exception error)
        {
            await limit.CancelAsync().ConfigureAwait(false);
            // It may have opened after all. What it failed with is of no interest any more.
            _ = opening.ContinueWith(
                late =>
                {
                    limit.Dispose();
                    return Abandon(late.IsCompletedSuccessfully ? late.Result : null, sockets);
                },
                CancellationToken.None, TaskContinuationOptions.None, TaskScheduler.Default);
            if (error is TimeoutException)
                throw NoAnswer(patience, "connect", error);
            throw;
        }
    }

    /// <summary>Opens a channel whose end is the end of the connection, or one that may fail by itself.</summary>
    /// <param name="confirms">Whether the broker confirms what is published on it.</param>
    /// <param name="matters">Whether the connection is lost with it.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    public async Task<IChannel> OpenChannelAsync(bool confirms, bool matters, CancellationToken cancellationToken)
    {
        // No tracking: it writes headers of its own into messages. No limiter: the default one stops at 1,000 a second.
        CreateChannelOptions options = new(
            confirms, publisherConfirmationTrackingEnabled: false, outstandingPublisherConfirmationsRateLimiter: null);
        IChannel channel = await Ask(
            _connection.CreateChannelAsync(options, cancellationToken), "open a channel", queue: null, cancellationToken)
            .ConfigureAwait(false);
        if (!matters)
            return channel;
        channel.ChannelShutdownAsync += (_, shutdown) =>
        {
            Fail($"The channel ended: code={shutdown.ReplyCode}, {shutdown.ReplyText}", shutdown);
            return Task.CompletedTask;
        };
        channel.CallbackExceptionAsync += (_, callback) =>
        {
            Fail(callback.Exception);
            return Task.CompletedTask;
        };
        return channel;
    }

    /// <summary>
    /// Whether the broker was silent for too long. One without memory or disk reads nothing of a connection that publishes, not
    /// even a question, until it has some again. It says so, and its heartbeats continue. Nor is one silent that is still being
    /// told something, or still tells it: a long message takes its time on a slow network, and what was asked comes behind it.
    /// </summary>
    /// <param name="since">Since when, as a timestamp, something is waited for.</param>
    public bool IsLate(long since)
    {
        long transfer = _sockets.Max(socket => Math.Max(socket.PushTime, socket.PullTime));
        long last = Math.Max(since, Math.Max(Volatile.Read(ref _freeTime), transfer));
        return !_isBlocked && Stopwatch.GetElapsedTime(last) > _patience;
    }

    /// <summary>Waits for an answer, up to the limit.</summary>
    /// <param name="call">What is asked.</param>
    /// <param name="step">What the answer is for; the error of a wait without an answer tells it.</param>
    /// <param name="queue">The queue that it is about; null for none.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    public async Task<T> Ask<T>(Task<T> call, string step, string? queue, CancellationToken cancellationToken)
    {
        await Ask((Task)call, step, queue, cancellationToken).ConfigureAwait(false);
        return await call.ConfigureAwait(false);
    }

    /// <inheritdoc cref="Ask{T}"/>
    public async Task Ask(Task call, string step, string? queue, CancellationToken cancellationToken)
    {
        if (!call.IsCompletedSuccessfully)
        {
            using CancellationTokenSource either = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken, Lost);
            try
            {
                await WaitAsync(call, either.Token).ConfigureAwait(false);
            }
            catch (TimeoutException error)
            {
                Fail(NoAnswer(_patience, queue is null ? step : $"{step}, queue={queue}", error));
            }
            catch (OperationCanceledException) when (Lost.IsCancellationRequested && !cancellationToken.IsCancellationRequested)
            {
                // The reason is told below.
            }
        }

        ThrowIfLost();
        await call.ConfigureAwait(false);
    }

    public void Fail(Exception reason)
    {
        // The client has repaired it by itself, or will.
        if (PlantedFaults.Has(PlantedFault.AutomaticRecovery))
            return;
        Interlocked.CompareExchange(ref _reason, reason, null);
        _lost.Cancel();
    }

    /// <summary>The broker's code goes along: it tells a denial from trouble that passes.</summary>
    private void Fail(string what, ShutdownEventArgs shutdown) =>
        Fail(new BrokerException(what, shutdown.Exception) { Data = { ["code"] = (int)shutdown.ReplyCode } });

    public void ThrowIfLost()
    {
        if (Volatile.Read(ref _reason) is { } reason)
            throw new BrokerException(reason.Message, reason) { IsTimeout = reason is BrokerException { IsTimeout: true } };
    }

    /// <summary>Closes it, and continues after a short while even if that hangs.</summary>
    public async ValueTask DisposeAsync()
    {
        _isGivenUp = true;
        try
        {
            await Abandon(_connection, _sockets).WaitAsync(s_closePatience).ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            // It ends in the background, or with the process.
        }
    }

    private async Task WaitAsync(Task call, CancellationToken cancellationToken)
    {
        long since = Stopwatch.GetTimestamp();
        while (true)
        {
            try
            {
                await call.WaitAsync(_patience, cancellationToken).ConfigureAwait(false);
                return;
            }
            catch (TimeoutException) when (!call.IsCompleted && !IsLate(since))
            {
                // The broker takes nothing for now, or has begun to take it again.
            }
        }
    }

    private static BrokerException NoAnswer(TimeSpan patience, string step, Exception inner) =>
        new($"The broker did not answer within {patience.TotalSeconds} s: step={step}.", inner) { IsTimeout = true };

    private static Task Abandon(IConnection? connection, ConcurrentBag<WatchedSocket> sockets) => Task.Run(async () =>
    {
        try
        {
            if (connection is not null)
            {
                await connection.CloseAsync(Constants.ReplySuccess, "", s_closePatience, abort: true, CancellationToken.None)
                    .WaitAsync(2 * s_closePatience).ConfigureAwait(false);
                await connection.DisposeAsync().AsTask().WaitAsync(2 * s_closePatience).ConfigureAwait(false);
            }
        }
        catch (Exception)
        {
            // Nobody waits for it, and nothing can be done about it.
        }
        finally
        {
            foreach (WatchedSocket socket in sockets)
                socket.Dispose();
        }
    });
}
