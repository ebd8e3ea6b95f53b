using MappedFileQueues.RabbitMQ.Connections;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.RabbitMQ.Diagnostics;

/// <summary>
/// What forwarders and fetchers do around an attempt: states, pauses, what may be tried again and what may not.
/// </summary>
internal abstract class BridgeLoop
{
    /// <summary>
    /// How soon a standby looks again, at least. Each look opens a connection and a channel, which the broker logs; the work
    /// waits for the next look when the holder ends.
    /// </summary>
    private static readonly TimeSpan s_lookMin = TimeSpan.FromSeconds(1);

    private readonly BridgeOptions _options;
    private readonly BackOff _backOff;
    private readonly Lock _lock = new();
    private BridgeState _activity;
    private long _goodSince;
    private bool _isBlocked;
    private BridgeState _state;
    private DateTimeOffset _since;
    private DateTimeOffset? _troubleSince;
    private DateTimeOffset? _troubleBefore;
    private long _messagesBefore;
    private string? _broker;
    private string? _error;
    private long _messages;
    private long _bytes;
    private long _attempts;
    private int _isRunning;

    protected BridgeLoop(BridgeOptions options, string direction, ILogger logger)
    {
        options.Check();
        (_options, Direction, Logger) = (options, direction, logger);
        _backOff = new BackOff(options);
        Addresses = new BrokerAddresses(options);
        _since = options.TimeProvider.GetUtcNow();
        // Several stores may share a stream.
        Tags = [new("direction", direction), new("stream", options.Stream), new("store", options.StorePath)];
    }

    public string Direction { get; }

    public KeyValuePair<string, object?>[] Tags { get; }

    protected ILogger Logger { get; }

    protected BrokerAddresses Addresses { get; }

    /// <summary>How far the broker is behind the store, in bytes.</summary>
    protected virtual long LagBytes => 0;

    public BridgeStatus GetStatus()
    {
        long lag = LagBytes;
        lock (_lock)
            return new BridgeStatus(_state, _since, _troubleSince, _broker, _error, _messages, _bytes, _attempts, lag);
    }

    private bool IsGood => _activity is BridgeState.Running or BridgeState.Standby;

    private bool IsAttempting => _activity is BridgeState.Connecting or BridgeState.Standby or BridgeState.Running;

    /// <summary>Tries until an attempt says that all is done, until cancelled, or until a person has to decide.</summary>
    public async Task RunAsync(bool once, CancellationToken cancellationToken)
    {
        if (Interlocked.Exchange(ref _isRunning, 1) != 0)
            throw new InvalidOperationException("This bridge runs already.");
        BridgeMeter.Add(this);
        try
        {
            while (!await TryAsync(once, cancellationToken).ConfigureAwait(false))
            {
            }

            SetState(BridgeState.Stopped);
        }
        finally
        {
            Close();
            BridgeMeter.Remove(this);
            Volatile.Write(ref _isRunning, 0);
        }
    }

    /// <summary>One connection's life; returns when all is done, which without <paramref name="once"/> is never.</summary>
    protected abstract Task AttemptAsync(bool once, CancellationToken cancellationToken);

    /// <summary>Closes what stays open between attempts.</summary>
    protected abstract void Close();

    protected void SetState(BridgeState state)
    {
        lock (_lock)
        {
            bool wasGood = IsGood;
            _activity = state;
            if (IsGood && !wasGood)
                _goodSince = _options.TimeProvider.GetTimestamp();
            // The end of an attempt ends that too.
            _isBlocked &= IsAttempting;
            ShowState();
        }
    }

    protected void Connecting()
    {
        lock (_lock)
        {
            (_broker, _attempts, _isBlocked) = (Addresses.Shown, _attempts + 1, false);
            ShowState();
            // Who stands by by looking now and then still stands by, and does not tell it each time.
            if (_state == BridgeState.Standby)
                return;
        }

        SetState(BridgeState.Connecting);
        BridgeLog.Connecting(Logger, Direction, _options.Stream, Addresses.Shown);
    }

    /// <summary>A message of the stream is none of the bridge's.</summary>
    protected void OnForeign(long streamOffset, string error) =>
        BridgeLog.Foreign(Logger, Direction, _options.Stream, streamOffset, error);

    /// <summary>The broker takes no messages for now, or, without a reason, does again.</summary>
    protected void Blocked(string? reason)
    {
        string text = $"The broker takes no messages: {reason}.";
        lock (_lock)
        {
            if (_isBlocked == (reason is not null) || !IsAttempting)
                return;
            _isBlocked = reason is not null;
            if (_isBlocked)
                _error = text;
            ShowState();
        }

        if (reason is not null)
            BridgeLog.Blocked(Logger, Direction, _options.Stream, text);
        else
            BridgeLog.Unblocked(Logger, Direction, _options.Stream);
    }

    /// <summary>Somebody else does the work.</summary>
    /// <param name="reason">Who, and by which lock.</param>
    protected void Standby(string reason)
    {
        lock (_lock)
        {
            if (_activity == BridgeState.Standby)
                return;
            SetState(BridgeState.Standby);
        }

        BridgeLog.Standby(Logger, Direction, _options.Stream, reason);
    }

    protected void Running(long offset)
    {
        SetState(BridgeState.Running);
        BridgeLog.Running(Logger, Direction, _options.Stream, offset, Addresses.Shown);
    }

    /// <summary>Messages have arrived for good.</summary>
    protected void Moved(long messages, long bytes)
    {
        lock (_lock)
        {
            _messages += messages;
            _bytes += bytes;
        }

        _backOff.Reset();
        BridgeMeter.Moved(this, messages, bytes);
    }

    /// <summary>Stops the bridge, or says what is ambiguous and lets it continue, as the policy is.</summary>
    protected void Ambiguous(BridgeFault fault, string change, string remedy)
    {
        if (_options.OnSourceChange == SourceChangePolicy.Stop)
            throw new BridgeException(fault, $"{change} {remedy}");
        BridgeLog.Changed(Logger, Direction, _options.Stream, change);
    }

    /// <summary>While the broker takes nothing, that is the state, and not what is done once it takes messages again.</summary>
    private void ShowState()
    {
        BridgeState state = _isBlocked ? BridgeState.Blocked : _activity;
        if (_state == state)
            return;
        DateTimeOffset now = _options.TimeProvider.GetUtcNow();
        if (state is BridgeState.Running or BridgeState.Standby)
        {
            (_troubleBefore, _troubleSince, _messagesBefore) = (_troubleSince, null, _messages);
        }
        else if (_troubleSince is null)
        {
            // An attempt that fails as soon as it runs has ended no trouble.
            bool isOld = _state == BridgeState.Running && _messages == _messagesBefore
                && now - _since < _options.BackOffMax;
            _troubleSince = (isOld ? _troubleBefore : null) ?? now;
        }

        (_state, _since) = (state, now);
    }

    /// <summary>
    /// Whether the attempt that ends now has worked for longer than any pause: whatever failed before it is over, also when there
    /// was nothing to move.
    /// </summary>
    private bool HasLasted()
    {
        lock (_lock)
            return IsGood && _options.TimeProvider.GetElapsedTime(_goodSince) >= _options.BackOffMax;
    }

    /// <summary>Random, so that several that stand by do not come at once: once to twice as long, or below the limit.</summary>
    private TimeSpan FindLookPause(TimeSpan least)
    {
        TimeSpan half = least * 2 < _options.BackOffMax ? least : _options.BackOffMax / 2;
        return half * (1 + Random.Shared.NextDouble());
    }

    private bool IsTransient(Exception error) =>
        BrokerException.IsTransient(error) || (_options.AwaitsStore && error is QueueNotFoundException);

    private async Task<bool> TryAsync(bool once, CancellationToken cancellationToken)
    {
        TimeSpan pause;
        try
        {
            cancellationToken.ThrowIfCancellationRequested();
            await AttemptAsync(once, cancellationToken).ConfigureAwait(false);
            return true;
        }
        catch (OperationCanceledException) when (cancellationToken.IsCancellationRequested)
        {
            SetState(BridgeState.Stopped);
            throw;
        }
        catch (LockHeldException error)
        {
            Standby(error.Message);
            pause = FindLookPause(_options.BackOffMin > s_lookMin ? _options.BackOffMin : s_lookMin);
        }
        catch (QueueInUseException error)
        {
            // Another process of this machine does the work; the store's own lock is as good as the broker's.
            lock (_lock)
                _error = error.Message;
            Standby(error.Message);
            pause = FindLookPause(_options.BackOffMin * 5);
        }
        catch (Exception error) when (IsTransient(error) && !(once && BrokerException.IsDenied(error)))
        {
            string text = BrokerException.Describe(error);
            if (HasLasted())
                _backOff.Reset();
            lock (_lock)
                _error = text;
            SetState(BridgeState.BackingOff);
            Addresses.MoveOn();
            pause = _backOff.Next();
            BridgeMeter.Failed(this);
            BridgeLog.BackingOff(Logger, Direction, _options.Stream, text, (long)pause.TotalMilliseconds);
        }
        catch (Exception error)
        {
            // Who waits for the end of the work waits in vain, and hears of it.
            bool isDenied = BrokerException.IsTransient(error) && error is not MappedFileQueueException;
            Exception last = !isDenied ? error : new BridgeException(
                BridgeFault.Denied,
                $"The broker denies the account, its virtual host or a right: broker={Addresses.Shown}, "
                + $"stream={_options.Stream}. {BrokerException.Describe(error)} Correct the account, or grant what is missing.",
                error);
            lock (_lock)
                _error = last.Message;
            SetState(BridgeState.Failed);
            BridgeMeter.Failed(this);
            BridgeLog.Failed(Logger, Direction, _options.Stream, last.Message);
            if (isDenied)
                throw last;
            throw;
        }

        try
        {
            await _backOff.PauseAsync(pause, cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            SetState(BridgeState.Stopped);
            throw;
        }

        return false;
    }
}
