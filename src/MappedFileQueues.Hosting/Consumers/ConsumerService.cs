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
/// An error of the system around these steps closes the consumer, which is opened again after a pause, as after a death. An error
/// of the handler that passes has no last attempt. Health shows what is in the way, and the log tells each kind of it once.
/// At its end the application cancels the wait for messages and the pauses between attempts, and lets the call in hand end.
/// </summary>
/// <typeparam name="T">What the handler gets.</typeparam>
internal sealed class ConsumerService<T> : BackgroundService
{
    /// <summary>The least pause where no attempt is the last one.</summary>
    private static readonly TimeSpan s_delayMin = TimeSpan.FromMilliseconds(100);

    /// <summary>Stacks of one kind of error are logged no more often: many bad messages would fill the log's disk.</summary>
    private static readonly TimeSpan s_stackInterval = TimeSpan.FromSeconds(1);

    private readonly NamedQueue _queue;
    private readonly HostedConsumerOptions _options;
    private readonly Func<ConsumerOptions, CancellationToken, ValueTask<MessageSource<T>>> _open;
    private readonly HandlerCall<T> _handler;
    private readonly IHostApplicationLifetime? _lifetime;
    private readonly ConsumeContext _context;
    private readonly ConsumerMeter _meter;
    private readonly DeadLetterBox _deadLetters;
    private readonly CancellationTokenSource _impatience = new();
    private long? _committed;
    private Type? _toldTrouble;
    private int _lettersInRow;
    private Func<MessageHeaders?>? _readHeaders;
    private Type? _toldStack;
    private long _toldStackAt;

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
        _context = new ConsumeContext { QueueName = queue.Name, ConsumerName = consumer };
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
    }

    public ConsumerState State { get; }

    private ILogger Logger => _queue.Logger;

    private TimeProvider Clock => _queue.Options.TimeProvider;

    /// <summary>A handler that cannot be made ends the application's start.</summary>
    public override async Task StartAsync(CancellationToken cancellationToken)
    {
        await _handler.PrepareAsync().ConfigureAwait(false);
        _queue.Add(State);
        await base.StartAsync(cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Ends the consumer. The call in hand may continue until the application's patience is over.</summary>
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
        try
        {
            await RunSessionsAsync(stoppingToken).ConfigureAwait(false);
        }
        catch (Exception error) when (IsEnd(error, stoppingToken))
        {
            State.Condition = new ConsumerCondition(ConsumerStatus.Stopped);
            TellStopped();
        }
        catch (Exception error)
        {
            State.Condition = new ConsumerCondition(ConsumerStatus.Failed, error);
            TellStopped();
            Logger.ConsumerFailed(
                error, _queue.Name, State.Name, State.HandlerName, (error as HandlerFailedException)?.Offset ?? _committed);
            if (_options.OnFailure == HandlerFailureAction.StopApplication)
                StopApplication();
        }
        finally
        {
            await _handler.DisposeAsync().ConfigureAwait(false);
        }
    }

    private void TellStopped()
    {
        if (_committed is { } offset)
            Logger.ConsumerStopped(_queue.Name, State.Name, State.HandlerName, offset);
    }

    private void StopApplication()
    {
        // Otherwise the process ends as one that has done its work, and nobody starts it again.
        if (Environment.ExitCode == 0)
            Environment.ExitCode = 1;
        _lifetime?.StopApplication();
    }

    /// <summary>Opens the consumer and runs it; again and again, while the errors are the system's and pass.</summary>
    private async Task RunSessionsAsync(CancellationToken stoppingToken)
    {
        for (int attempt = 1; ; attempt++)
        {
            long began = Clock.GetTimestamp();
            try
            {
                await RunSessionAsync(stoppingToken).ConfigureAwait(false);
            }
            catch (Exception error) when (PassingErrors.IsOfSystem(error))
            {
                if (HoldUp(ConsumerStatus.HeldUp, error))
                    Logger.ConsumerHeldUp(error, _queue.Name, State.Name, State.HandlerName, _committed);
            }

            if (Clock.GetElapsedTime(began) > _options.RetryDelayMax)
                attempt = 1;
            await DelayAsync(attempt, s_delayMin, stoppingToken).ConfigureAwait(false);
        }
    }

    private async Task RunSessionAsync(CancellationToken stoppingToken)
    {
        using MessageSource<T> source = await OpenAsync(stoppingToken).ConfigureAwait(false);
        if (_committed is null)
            Logger.ConsumerStarted(_queue.Name, State.Name, State.HandlerName, source.CommittedOffset);
        _committed = source.CommittedOffset;
        _readHeaders = () => source.Headers;
        _context.Open(_queue.LastInfo.Epoch);
        // After a hold-up a first success shows that it is over.
        if (State.Condition.Error is null)
            State.Condition = new ConsumerCondition(ConsumerStatus.Runs);
        try
        {
            if (_handler.TakesBatches)
                await RunBatchesAsync(source, stoppingToken).ConfigureAwait(false);
            else
                await RunAsync(source, stoppingToken).ConfigureAwait(false);
        }
        finally
        {
            _committed = source.CommittedOffset;
        }
    }

    /// <summary>Something is in the way: health shows it until <see cref="Resume"/>; true when the log is to be told.</summary>
    private bool HoldUp(ConsumerStatus status, Exception error)
    {
        State.Condition = new ConsumerCondition(status, error);
        // An exception of the service itself stands for the one that is within.
        Type kind = ((error as HandlerFailedException)?.InnerException ?? error).GetType();
        bool isNew = _toldTrouble != kind;
        _toldTrouble = kind;
        return isNew;
    }

    /// <summary>Nothing is in the way any more.</summary>
    private void Resume()
    {
        if (State.Condition.Error is null)
            return;
        State.Condition = new ConsumerCondition(ConsumerStatus.Runs);
        // A handler that refused a message a few times was no trouble of the consumer.
        if (_toldTrouble is not null)
            Logger.ConsumerContinues(_queue.Name, State.Name, State.HandlerName);
        _toldTrouble = null;
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
            (State.Condition, _toldTrouble) = (new ConsumerCondition(ConsumerStatus.StandsBy), null);
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
                await RefuseAsync(source, error.InnerException!, stoppingToken).ConfigureAwait(false);
                continue;
            }

            if (found)
                await HandleAsync(source, message, _options.AttemptsMax, stoppingToken).ConfigureAwait(false);
            else
                await WaitAsync(source, stoppingToken).ConfigureAwait(false);
        }
    }

    /// <summary>One message, from the first attempt to the commit.</summary>
    private async ValueTask HandleAsync(
        MessageSource<T> source, T message, int refusalsMax, CancellationToken stoppingToken)
    {
        _context.MoveTo(source.Offset, source.NextOffset, _readHeaders);
        _context.Links = null;
        if (await TryHandleAsync(message, default, isBatch: false, refusalsMax, stoppingToken).ConfigureAwait(false) is { } error)
            await GiveUpAsync(source, error, _context.Attempt, stoppingToken).ConfigureAwait(false);
        else
            await FinishAsync(source, 1).ConfigureAwait(false);
    }

    private async Task RunBatchesAsync(MessageSource<T> source, CancellationToken stoppingToken)
    {
        while (true)
        {
            await WaitAsync(source, stoppingToken).ConfigureAwait(false);
            ThrowIfStopping(stoppingToken);
            long offset = source.Offset;
            int count;
            ReadOnlyMemory<T> messages;
            List<ActivityLink>? links;
            try
            {
                links = QueueMeter.Activities.HasListeners() ? [] : null;
                count = source.ReadBatch(_options.BatchLengthMax, stoppingToken, out messages, links);
            }
            catch (UnreadableMessageException error)
            {
                await RefuseAsync(source, error.InnerException!, stoppingToken).ConfigureAwait(false);
                continue;
            }

            _context.MoveTo(offset, source.Offset, readHeaders: null);
            _context.Links = links;
            if (await TryHandleAsync(default!, messages, isBatch: true, _options.AttemptsMax, stoppingToken)
                .ConfigureAwait(false) is null)
            {
                await FinishAsync(source, count).ConfigureAwait(false);
            }
            else
            {
                await HandleEachAsync(source, end: source.Offset, stoppingToken).ConfigureAwait(false);
            }
        }
    }

    /// <summary>The messages of a batch that was refused at every attempt, each alone.</summary>
    private async ValueTask HandleEachAsync(MessageSource<T> source, long end, CancellationToken stoppingToken)
    {
        source.Rewind();
        while (source.Offset < end)
        {
            ThrowIfStopping(stoppingToken);
            T message;
            try
            {
                if (!source.TryRead(out message))
                    return;
            }
            catch (UnreadableMessageException error)
            {
                await RefuseAsync(source, error.InnerException!, stoppingToken).ConfigureAwait(false);
                continue;
            }

            // Retention has removed the rest meanwhile: what comes now was never refused.
            if (source.Offset >= end)
                source.Rewind();
            else
                await HandleAsync(source, message, refusalsMax: 1, stoppingToken).ConfigureAwait(false);
        }
    }

    private ValueTask<bool> WaitAsync(MessageSource<T> source, CancellationToken stoppingToken)
    {
        ValueTask<bool> wait = source.WaitAsync(stoppingToken);
        if (!wait.IsCompleted)
            Resume();
        return wait;
    }

    /// <summary>
    /// Calls the handler until it succeeds, or has refused the message or the batch so often; returns its last error, or null.
    /// </summary>
    private async ValueTask<Exception?> TryHandleAsync(
        T message, ReadOnlyMemory<T> messages, bool isBatch, int refusalsMax, CancellationToken stoppingToken)
    {
        int refusals = 0;
        for (int attempt = 1; ; attempt++)
        {
            _context.Try(attempt);
            if (await TryCallAsync(message, messages, isBatch).ConfigureAwait(false) is not { } error)
                return null;
            bool isTransient = _options.IsTransient(error);
            if (isTransient)
            {
                if (HoldUp(ConsumerStatus.Retries, error))
                    Logger.HandlerWaits(error, _queue.Name, State.Name, State.HandlerName, _context.Offset);
            }
            else
            {
                TellRefusal(error, _context.Offset, ++refusals, refusalsMax);
                if (refusals >= refusalsMax)
                    return error;
                State.Condition = new ConsumerCondition(ConsumerStatus.Retries, error);
            }

            await DelayAsync(attempt, isTransient ? s_delayMin : default, stoppingToken).ConfigureAwait(false);
        }
    }

    private void TellRefusal(Exception error, long offset, int refusals, int refusalsMax)
    {
        bool hasStack = _toldStack != error.GetType() || Clock.GetElapsedTime(_toldStackAt) > s_stackInterval;
        if (hasStack)
            (_toldStack, _toldStackAt) = (error.GetType(), Clock.GetTimestamp());
        Logger.HandlerFailed(
            hasStack ? error : null, _queue.Name, State.Name, State.HandlerName, offset, refusals, refusalsMax, error.GetType());
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

    /// <summary>Random between half and all of it, so that many consumers do not come back at once.</summary>
    private Task DelayAsync(int attempt, TimeSpan delayMin, CancellationToken stoppingToken)
    {
        double factor = Math.Pow(2, Math.Min(attempt - 1, 40));
        double delayMs = Math.Min(_options.RetryDelay.TotalMilliseconds * factor, _options.RetryDelayMax.TotalMilliseconds)
            * (1 + Random.Shared.NextDouble()) / 2;
        return Task.Delay(
            TimeSpan.FromMilliseconds(Math.Max(delayMs, delayMin.TotalMilliseconds)), Clock, stoppingToken);
    }

    /// <summary>The message in hand cannot be read.</summary>
    private ValueTask RefuseAsync(MessageSource<T> source, Exception error, CancellationToken stoppingToken)
    {
        TellRefusal(error, source.Offset, 1, 1);
        return GiveUpAsync(source, error, 1, stoppingToken);
    }

    /// <summary>The attempts are used up: the message goes to the dead letters, or the consumer stops.</summary>
    private async ValueTask GiveUpAsync(
        MessageSource<T> source, Exception error, int attempts, CancellationToken stoppingToken)
    {
        long offset = source.Offset;
        if (_options.OnFailure != HandlerFailureAction.DeadLetter)
            throw new HandlerFailedException(
                $"The handler failed at every attempt: queue={_queue.Name}, consumer=\"{State.Name}\", offset={offset}, "
                + $"attempts={attempts}. Correct the handler and start the application again, or set OnFailure to DeadLetter.",
                error, offset);
        await AppendLetterAsync(source, error, attempts, stoppingToken).ConfigureAwait(false);
        Logger.DeadLettered(_queue.Name, State.Name, offset, _deadLetters.Path, error.GetType());
        _meter.DeadLettered(error.GetType());
        await CommitAsync(source, 1).ConfigureAwait(false);
        if (++_lettersInRow < _options.DeadLettersInRowMax)
        {
            Resume();
            return;
        }

        HandlerFailedException pause = new(
            $"{_lettersInRow} messages in a row went to the dead letters, so it is hardly the messages. The consumer pauses "
            + $"after each further one, up to {_options.RetryDelayMax}, until one is handled. The last error is "
            + $"{error.GetType()}: {error.Message}",
            error, offset);
        if (HoldUp(ConsumerStatus.Pauses, pause))
            Logger.ConsumerPauses(_queue.Name, State.Name, State.HandlerName, _lettersInRow, _options.RetryDelayMax);
        await DelayAsync(_lettersInRow - _options.DeadLettersInRowMax + 1, s_delayMin, stoppingToken).ConfigureAwait(false);
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
        MessageHeaders? headers = source.Headers;
        DateTimeOffset time = Clock.GetUtcNow();
        (string errorType, string errorText) = DeadLetter.Describe(error);
        for (int attempt = 1; ; attempt++)
        {
            try
            {
                MappedFileQueueInfo info = _queue.LastInfo;
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
                    MessageLength = message.Length,
                    Message = message,
                };
                _deadLetters.Append(letter, info.SegmentSize, headers);
                return;
            }
            catch (Exception failure) when (failure is not ObjectDisposedException)
            {
                var trouble = new HandlerFailedException(
                    $"The dead letter of the message at offset={offset} cannot be appended, and is tried again until it can: "
                    + $"{failure.Message} The handler failed with {errorType}: {errorText}",
                    failure, offset);
                if (HoldUp(ConsumerStatus.HeldUp, trouble))
                    Logger.DeadLetterFailed(failure, _queue.Name, State.Name, offset, _deadLetters.Path);
            }

            await DelayAsync(attempt, s_delayMin, stoppingToken).ConfigureAwait(false);
        }
    }

    /// <summary>Commits what was handled.</summary>
    private async ValueTask FinishAsync(MessageSource<T> source, int count)
    {
        await CommitAsync(source, count).ConfigureAwait(false);
        _lettersInRow = 0;
        Resume();
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
