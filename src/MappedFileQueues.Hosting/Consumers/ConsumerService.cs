using System.Diagnostics;
using MappedFileQueues.Hosting.Queues;
using MappedFileQueues.Hosting.Telemetry;
using MappedFileQueues.Log.StoreFiles;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting.Consumers;

/// <summary>
/// Runs one consumer of the application: reads, calls the handler, commits.
/// <code>
/// step                          a process that dies after it
/// 1 read                        begins with this message again
/// 2 the handler returns         begins with this message again: handlers see a message at least once
///   it throws at every attempt
///   2a the dead letter is       begins with this message again, and the letter may be there twice
///      on disk; tried until
///      it is
/// 3 commit                      begins with the next message
/// </code>
/// At its end the application cancels the wait for messages and the pauses between attempts, and lets the call in hand end.
/// </summary>
/// <typeparam name="T">What the handler gets.</typeparam>
internal sealed class ConsumerService<T> : BackgroundService
{
    private static readonly TimeSpan s_letterDelayMin = TimeSpan.FromMilliseconds(100);

    private readonly NamedQueue _queue;
    private readonly HostedConsumerOptions _options;
    private readonly Func<ConsumerOptions, CancellationToken, ValueTask<MessageSource<T>>> _open;
    private readonly HandlerCall<T> _handler;
    private readonly IHostApplicationLifetime? _lifetime;
    private readonly ConsumeContext _context;
    private readonly ConsumerMeter _meter;
    private readonly DeadLetterBox _deadLetters;
    private readonly CancellationTokenSource _impatience = new();

    /// <param name="queue">The queue.</param>
    /// <param name="consumer">The consumer's name.</param>
    /// <param name="options">Its options.</param>
    /// <param name="open">Opens it, and waits for its name.</param>
    /// <param name="handler">The handler.</param>
    /// <param name="meter">Counts what it does.</param>
    /// <param name="lifetime">Stops the application; null where there is none.</param>
    public ConsumerService(
        NamedQueue queue,
        string consumer,
        HostedConsumerOptions options,
        Func<ConsumerOptions, CancellationToken, ValueTask<MessageSource<T>>> open,
        HandlerCall<T> handler,
        QueueMeter meter,
        IHostApplicationLifetime? lifetime)
    {
        _queue = queue;
        _options = options;
        _open = open;
        _handler = handler;
        _lifetime = lifetime;
        _context = new ConsumeContext(queue.Name, consumer);
        _meter = meter.ForConsumer(queue.Name, consumer);
        string deadLetterPath =
            options.DeadLetterPath ?? Path.TrimEndingDirectorySeparator(queue.Options.StorePath) + "-dead-letters";
        if (StorePaths.AreSame(deadLetterPath, queue.Options.StorePath))
        {
            throw new InvalidOperationException($"{QueueNames.ConsumerPathOf(queue.Name, consumer)}:"
                + $"{nameof(options.DeadLetterPath)} is the queue's own store: its letters would be messages again. "
                + $"path={deadLetterPath}.");
        }

        queue.DeadLetterPaths.TryAdd(deadLetterPath, true);
        _deadLetters = new DeadLetterBox(deadLetterPath, queue.Options);
        State = new ConsumerState(queue.Name, consumer, handler.HandlerName, options.HandlerTimeMax, queue.Options.TimeProvider);
        queue.Add(State);
    }

    public ConsumerState State { get; }

    private ILogger Logger => _queue.Logger;

    /// <summary>Ends the consumer. The call in hand may go on until the application's patience is over.</summary>
    public override async Task StopAsync(CancellationToken cancellationToken)
    {
        await base.StopAsync(cancellationToken).ConfigureAwait(false);
        // It has returned because the patience is over. A registration would be too late: the wait that this ends would end it.
        if (cancellationToken.IsCancellationRequested)
            await _impatience.CancelAsync().ConfigureAwait(false);
    }

    public override void Dispose()
    {
        base.Dispose();
        // A handler that outlives the application's patience still holds the token.
        _impatience.Cancel();
        _deadLetters.Dispose();
    }

    protected override async Task ExecuteAsync(CancellationToken stoppingToken)
    {
        // The application's other services may take long to stop, and come first.
        using var stopping = CancellationTokenSource.CreateLinkedTokenSource(
            stoppingToken, _lifetime?.ApplicationStopping ?? CancellationToken.None);
        stoppingToken = stopping.Token;
        long? committed = null;
        try
        {
            using MessageSource<T> source = await OpenAsync(stoppingToken).ConfigureAwait(false);
            State.Status = ConsumerStatus.Runs;
            Logger.ConsumerStarted(_queue.Name, State.Name, State.HandlerName, source.CommittedOffset);
            try
            {
                if (_handler.TakesBatches)
                    await RunBatchesAsync(source, stoppingToken).ConfigureAwait(false);
                else
                    await RunAsync(source, stoppingToken).ConfigureAwait(false);
            }
            finally
            {
                committed = source.CommittedOffset;
                Logger.ConsumerStopped(_queue.Name, State.Name, State.HandlerName, source.CommittedOffset);
            }
        }
        catch (Exception error) when (IsEnd(error, stoppingToken))
        {
            State.Status = ConsumerStatus.Stopped;
        }
        catch (Exception error)
        {
            State.Fail(error);
            Logger.ConsumerFailed(error, _queue.Name, State.Name, State.HandlerName, committed);
            if (_options.OnFailure == HandlerFailureAction.StopApplication)
                _lifetime?.StopApplication();
        }
    }

    /// <summary>The application ends, and perhaps has disposed the queue already.</summary>
    private bool IsEnd(Exception error, CancellationToken stoppingToken) =>
        (stoppingToken.IsCancellationRequested || _lifetime is { ApplicationStopping.IsCancellationRequested: true })
        && error is OperationCanceledException or ObjectDisposedException;

    /// <summary>The application's own token is looked at too: a token that is linked to it hears of it a moment later.</summary>
    private void ThrowIfStopping(CancellationToken stoppingToken)
    {
        stoppingToken.ThrowIfCancellationRequested();
        _lifetime?.ApplicationStopping.ThrowIfCancellationRequested();
    }

    private async ValueTask<MessageSource<T>> OpenAsync(CancellationToken stoppingToken)
    {
        ValueTask<MessageSource<T>> opening = _open(_options.ToOptions(), stoppingToken);
        if (!opening.IsCompleted)
        {
            State.Status = ConsumerStatus.StandsBy;
            Logger.ConsumerStandsBy(_queue.Name, State.Name);
        }

        return await opening.ConfigureAwait(false);
    }

    private async Task RunAsync(MessageSource<T> source, CancellationToken stoppingToken)
    {
        while (true)
        {
            ThrowIfStopping(stoppingToken);
            bool found;
            T message;
            try
            {
                found = source.TryRead(out message);
            }
            catch (UnreadableMessageException error)
            {
                await GiveUpAsync(source, error.InnerException!, 1, stoppingToken).ConfigureAwait(false);
                await CommitAsync(source, 1).ConfigureAwait(false);
                continue;
            }

            if (found)
                await HandleAsync(source, message, _options.AttemptsMax, stoppingToken).ConfigureAwait(false);
            else
                await source.WaitAsync(stoppingToken).ConfigureAwait(false);
        }
    }

    /// <summary>One message, from the first attempt to the commit.</summary>
    private async ValueTask HandleAsync(
        MessageSource<T> source, T message, int attemptsMax, CancellationToken stoppingToken)
    {
        _context.Offset = source.Offset;
        _context.NextOffset = source.OffsetBehind;
        for (int attempt = 1; ; attempt++)
        {
            _context.Attempt = attempt;
            if (await TryCallAsync(message, default, isBatch: false).ConfigureAwait(false) is not { } error)
                break;
            if (attempt >= attemptsMax)
            {
                await GiveUpAsync(source, error, attempt, stoppingToken).ConfigureAwait(false);
                break;
            }

            await PauseAsync(error, attempt, attemptsMax, stoppingToken).ConfigureAwait(false);
        }

        await CommitAsync(source, 1).ConfigureAwait(false);
    }

    private async Task RunBatchesAsync(MessageSource<T> source, CancellationToken stoppingToken)
    {
        while (true)
        {
            await source.WaitAsync(stoppingToken).ConfigureAwait(false);
            ThrowIfStopping(stoppingToken);
            _context.Offset = source.Offset;
            int count;
            ReadOnlyMemory<T> messages;
            try
            {
                count = source.ReadBatch(_options.BatchLengthMax, stoppingToken, out messages);
            }
            catch (UnreadableMessageException error)
            {
                await GiveUpAsync(source, error.InnerException!, 1, stoppingToken).ConfigureAwait(false);
                await CommitAsync(source, 1).ConfigureAwait(false);
                continue;
            }

            _context.NextOffset = source.Offset;
            if (await TryHandleBatchAsync(messages, stoppingToken).ConfigureAwait(false))
                await CommitAsync(source, count).ConfigureAwait(false);
            else
                await HandleEachAsync(source, count, stoppingToken).ConfigureAwait(false);
        }
    }

    private async ValueTask<bool> TryHandleBatchAsync(ReadOnlyMemory<T> messages, CancellationToken stoppingToken)
    {
        for (int attempt = 1; ; attempt++)
        {
            _context.Attempt = attempt;
            if (await TryCallAsync(default!, messages, isBatch: true).ConfigureAwait(false) is not { } error)
                return true;
            if (attempt >= _options.AttemptsMax)
            {
                Logger.HandlerFailed(
                    error, _queue.Name, State.Name, State.HandlerName, _context.Offset, attempt, _options.AttemptsMax);
                return false;
            }

            await PauseAsync(error, attempt, _options.AttemptsMax, stoppingToken).ConfigureAwait(false);
        }
    }

    /// <summary>The messages of a batch that was refused at every attempt, each alone.</summary>
    private async ValueTask HandleEachAsync(MessageSource<T> source, int count, CancellationToken stoppingToken)
    {
        source.Rewind();
        for (int i = 0; i < count && source.TryRead(out T message); i++)
        {
            await HandleAsync(source, message, attemptsMax: 1, stoppingToken).ConfigureAwait(false);
            ThrowIfStopping(stoppingToken);
        }
    }

    /// <summary>Calls the handler; returns its error, or null.</summary>
    private ValueTask<Exception?> TryCallAsync(T message, ReadOnlyMemory<T> messages, bool isBatch)
    {
        Activity? activity = _meter.StartActivity(_context);
        long began = State.BeginCall(_context.Offset);
        ValueTask call;
        try
        {
            call = isBatch
                ? _handler.HandleAsync(messages, _context, _impatience.Token)
                : _handler.HandleAsync(message, _context, _impatience.Token);
        }
        catch (Exception error)
        {
            call = ValueTask.FromException(error);
        }

        if (!call.IsCompletedSuccessfully)
            return AwaitCallAsync(call, began, activity);
        EndCall(began, activity, null);
        return default;
    }

    private async ValueTask<Exception?> AwaitCallAsync(ValueTask call, long began, Activity? activity)
    {
        Exception? failure = null;
        try
        {
            await call.ConfigureAwait(false);
        }
        catch (Exception error) when (error is not OperationCanceledException || !_impatience.IsCancellationRequested)
        {
            failure = error;
        }
        finally
        {
            EndCall(began, activity, failure);
        }

        return failure;
    }

    private void EndCall(long began, Activity? activity, Exception? error)
    {
        _meter.Processed(State.EndCall(began), error);
        if (activity is null)
            return;
        if (error is not null)
            activity.SetStatus(ActivityStatusCode.Error, error.Message);
        activity.Dispose();
    }

    private async ValueTask PauseAsync(Exception error, int attempt, int attemptsMax, CancellationToken stoppingToken)
    {
        Logger.HandlerFailed(error, _queue.Name, State.Name, State.HandlerName, _context.Offset, attempt, attemptsMax);
        await DelayAsync(attempt, TimeSpan.Zero, stoppingToken).ConfigureAwait(false);
    }

    private Task DelayAsync(int attempt, TimeSpan delayMin, CancellationToken stoppingToken)
    {
        double factor = Math.Pow(2, Math.Min(attempt - 1, 40));
        double delayMs = Math.Min(_options.RetryDelay.TotalMilliseconds * factor, _options.RetryDelayMax.TotalMilliseconds);
        return Task.Delay(
            TimeSpan.FromMilliseconds(Math.Max(delayMs, delayMin.TotalMilliseconds)), _queue.Options.TimeProvider, stoppingToken);
    }

    /// <summary>The attempts are used up: appends the dead letter, or throws.</summary>
    private async ValueTask GiveUpAsync(
        MessageSource<T> source, Exception error, int attempts, CancellationToken stoppingToken)
    {
        long offset = source.Offset;
        Logger.HandlerFailed(error, _queue.Name, State.Name, State.HandlerName, offset, attempts, attempts);
        if (_options.OnFailure != HandlerFailureAction.DeadLetter)
            throw new HandlerFailedException(
                $"The handler failed at every attempt: queue={_queue.Name}, consumer=\"{State.Name}\", offset={offset}, "
                + $"attempts={attempts}. Correct the handler and start the application again, or set OnFailure to DeadLetter.",
                error);
        await AppendLetterAsync(source, error, attempts, stoppingToken).ConfigureAwait(false);
        Logger.DeadLettered(error, _queue.Name, State.Name, offset, _deadLetters.Path);
    }

    /// <summary>
    /// Appends a dead letter, however long that takes: the disk may be full for a while, and a consumer that stopped then would
    /// need a restart. Health shows both errors in the meantime; the log is told once for each kind of failure.
    /// </summary>
    private async ValueTask AppendLetterAsync(
        MessageSource<T> source, Exception error, int attempts, CancellationToken stoppingToken)
    {
        long offset = source.Offset;
        // Now: the pauses may outlast the store's retention.
        byte[] message = source.CopyBytes();
        DateTimeOffset time = _queue.Options.TimeProvider.GetUtcNow();
        (string errorType, string errorText) = DeadLetter.Describe(error);
        Type? toldFailure = null;
        for (int attempt = 1; ; attempt++)
        {
            try
            {
                MappedFileQueueInfo info = _queue.Watch.Look(TimeSpan.MaxValue)?.Info ?? _queue.GetInfo!();
                DeadLetter letter = new()
                {
                    StoreId = info.StoreId,
                    Epoch = info.Epoch,
                    Offset = offset,
                    Queue = _queue.Name,
                    Consumer = State.Name,
                    Time = time,
                    Attempts = attempts,
                    ErrorType = errorType,
                    Error = errorText,
                    Message = message,
                };
                _deadLetters.Append(letter, info.SegmentSize);
                State.Resume();
                return;
            }
            catch (Exception failure) when (failure is not ObjectDisposedException)
            {
                State.HoldUp(new HandlerFailedException(
                    $"The dead letter of the message at offset={offset} cannot be appended, and is tried again until it can: "
                    + $"{failure.Message} The handler failed with {errorType}: {errorText}",
                    failure));
                if (toldFailure != failure.GetType())
                    Logger.DeadLetterFailed(failure, _queue.Name, State.Name, offset, _deadLetters.Path);
                toldFailure = failure.GetType();
            }

            await DelayAsync(attempt, s_letterDelayMin, stoppingToken).ConfigureAwait(false);
        }
    }

    private async ValueTask CommitAsync(MessageSource<T> source, int count)
    {
        long began = _meter.TimesCommits ? Stopwatch.GetTimestamp() : 0;
        if (_options.DurableCommits)
            await source.CommitAsync().ConfigureAwait(false);
        else
            source.Commit();
        if (began != 0)
            _meter.Committed(Stopwatch.GetElapsedTime(began));
        _meter.Consumed(count);
    }
}
