using System.Diagnostics;
using MappedFileQueues.Hosting.Queues;
using MappedFileQueues.Hosting.Telemetry;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting.Consumers;

/// <summary>
/// What consumers of the application have in common, of whichever kind: they call a handler, count and trace the calls, tell
/// health and the log what is in the way, and end with the application. At its end the application cancels the wait for messages
/// and the pauses between attempts, and lets the call in hand end.
/// </summary>
/// <typeparam name="T">What the handler gets.</typeparam>
internal abstract class HandlerService<T> : BackgroundService, IConsumerService
{
    /// <summary>Stacks of one kind of error are logged no more often: many bad messages would fill the log's disk.</summary>
    private static readonly TimeSpan s_stackInterval = TimeSpan.FromSeconds(1);

    private readonly IHostApplicationLifetime? _lifetime;
    private readonly CancellationTokenSource _impatience = new();
    private CancellationToken _stopping;
    private Type? _toldTrouble;
    private int _lettersInRow;
    private Type? _toldStack;
    private long _toldStackAt;

    /// <param name="queue">The queue.</param>
    /// <param name="consumer">How the log, health and metrics call the consumer.</param>
    /// <param name="key">What tells it from others of this name in the data of health.</param>
    /// <param name="section">The key of its options.</param>
    /// <param name="options">Its options.</param>
    /// <param name="context">What the handler is given.</param>
    /// <param name="handler">The handler.</param>
    /// <param name="meter">Counts what it does.</param>
    /// <param name="lifetime">Stops the application; null where there is none.</param>
    protected HandlerService(
        NamedQueue queue,
        string consumer,
        string key,
        string section,
        HostedConsumerOptions options,
        ConsumeContext context,
        HandlerCall<T> handler,
        QueueMeter meter,
        IHostApplicationLifetime? lifetime)
    {
        Queue = queue;
        Options = options;
        Handler = handler;
        Context = context;
        _lifetime = lifetime;
        Meter = meter.ForConsumer(queue.Name, consumer);
        State = new ConsumerState(
            queue.Name, consumer, key, handler.HandlerName, options.HandlerTimeMax, queue.Clock);
        // A relative path is one in the folder in which the process works now: letters and health come later.
        LetterPath = SystemPath.Full(options.DeadLetterPath ?? GroupLetters.PathBeside(queue.Options.StorePath));
        if (StorePaths.AreSame(LetterPath, queue.Options.StorePath))
        {
            throw new InvalidOperationException($"{section}:{nameof(options.DeadLetterPath)} is the queue's own store: its "
                + $"letters would be messages again. path={LetterPath}.");
        }

        queue.DeadLetterPaths.TryAdd(LetterPath, true);
    }

    public ConsumerState State { get; }

    public bool HasEnded => State.Condition.Status is ConsumerStatus.Stopped or ConsumerStatus.Failed;

    /// <summary>The least pause where no attempt is the last one.</summary>
    protected static TimeSpan DelayMin => TimeSpan.FromMilliseconds(100);

    protected NamedQueue Queue { get; }

    protected HostedConsumerOptions Options { get; }

    protected HandlerCall<T> Handler { get; }

    protected ConsumeContext Context { get; }

    protected ConsumerMeter Meter { get; }

    /// <summary>The store of its dead letters.</summary>
    protected string LetterPath { get; }

    /// <summary>How far the log was consumed when it was last known; null before that.</summary>
    protected long? Committed { get; set; }

    protected ILogger Logger => Queue.Logger;

    protected TimeProvider Clock => Queue.Clock;

    /// <summary>A handler that cannot be made ends the application's start.</summary>
    public override async Task StartAsync(CancellationToken cancellationToken)
    {
        await Handler.PrepareAsync().ConfigureAwait(false);
        Queue.Add(State);
        await base.StartAsync(cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Ends the consumer. The call in hand may continue until the application's patience is over.</summary>
    public override async Task StopAsync(CancellationToken cancellationToken)
    {
        await base.StopAsync(cancellationToken).ConfigureAwait(false);
        // It was ended before it began.
        if (ExecuteTask is { IsCanceled: true })
        {
            State.Condition = new ConsumerCondition(ConsumerStatus.Stopped);
            await DisposeHandlerAsync().ConfigureAwait(false);
        }

        // It has returned because the patience is over. A registration would be too late: the wait that this ends would end it.
        if (cancellationToken.IsCancellationRequested)
            await EndPatienceAsync().ConfigureAwait(false);
    }

    public override void Dispose()
    {
        base.Dispose();
        Queue.Remove(State);
        // A handler that outlives the application's patience still holds the token.
        EndPatienceAsync().GetAwaiter().GetResult();
    }

    /// <summary>A callback that a handler has registered may throw: that must not keep the queue from being closed.</summary>
    private async Task EndPatienceAsync() =>
        await _impatience.CancelAsync().ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);

    protected override async Task ExecuteAsync(CancellationToken stoppingToken)
    {
        // The application's other services may take long to stop, and come first.
        using var stopping = CancellationTokenSource.CreateLinkedTokenSource(
            stoppingToken, _lifetime?.ApplicationStopping ?? CancellationToken.None);
        _stopping = stoppingToken = stopping.Token;
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
                error, Queue.Name, State.Name, State.HandlerName, (error as HandlerFailedException)?.Offset ?? Committed);
            if (Options.OnFailure == HandlerFailureAction.StopApplication)
                StopApplication();
        }
        finally
        {
            await DisposeHandlerAsync().ConfigureAwait(false);
        }
    }

    /// <summary>A handler that fails here would end the application.</summary>
    private async ValueTask DisposeHandlerAsync()
    {
        try
        {
            await Handler.DisposeAsync().ConfigureAwait(false);
        }
        catch (Exception error)
        {
            TellRefusal(error, Committed ?? 0, 1, 1);
        }
    }

    private void TellStopped()
    {
        if (Committed is { } offset)
            Logger.ConsumerStopped(Queue.Name, State.Name, State.HandlerName, offset);
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
                    Logger.ConsumerHeldUp(error, Queue.Name, State.Name, State.HandlerName, Committed);
            }

            if (Clock.GetElapsedTime(began) > Options.RetryDelayMax)
                attempt = 1;
            await DelayAsync(attempt, DelayMin, stoppingToken).ConfigureAwait(false);
        }
    }

    /// <summary>Consumes until something throws.</summary>
    protected abstract Task RunSessionAsync(CancellationToken stoppingToken);

    /// <summary>The consumer is open.</summary>
    /// <param name="committed">How far the log is consumed.</param>
    protected void BeginSession(long committed)
    {
        if (Committed is null)
            Logger.ConsumerStarted(Queue.Name, State.Name, State.HandlerName, committed);
        Committed = committed;
        Context.Open(Queue.LastInfo.Epoch);
        // After a hold-up a first success shows that it is over.
        if (State.Condition.Error is null)
            State.Condition = new ConsumerCondition(ConsumerStatus.Runs);
    }

    /// <summary>Another process has what the consumer needs.</summary>
    protected void StandBy()
    {
        (State.Condition, _toldTrouble) = (new ConsumerCondition(ConsumerStatus.StandsBy), null);
        Logger.ConsumerStandsBy(Queue.Name, State.Name);
    }

    /// <summary>Something is in the way: health shows it until <see cref="Resume"/>; true when the log is to be told.</summary>
    protected bool HoldUp(ConsumerStatus status, Exception error)
    {
        State.Condition = new ConsumerCondition(status, error);
        // An exception of the service itself stands for the one that is within.
        Type kind = ((error as HandlerFailedException)?.InnerException ?? error).GetType();
        bool isNew = _toldTrouble != kind;
        _toldTrouble = kind;
        return isNew;
    }

    /// <summary>Nothing is in the way any more.</summary>
    protected void Resume()
    {
        if (State.Condition.Error is null)
            return;
        State.Condition = new ConsumerCondition(ConsumerStatus.Runs);
        // A handler that refused a message a few times was no trouble of the consumer.
        if (_toldTrouble is not null)
            Logger.ConsumerContinues(Queue.Name, State.Name, State.HandlerName);
        _toldTrouble = null;
    }

    /// <summary>The application ends, and perhaps has disposed the queue already.</summary>
    private bool IsEnd(Exception error, CancellationToken stoppingToken) =>
        ((stoppingToken.IsCancellationRequested || _lifetime is { ApplicationStopping.IsCancellationRequested: true })
            && error is OperationCanceledException or ObjectDisposedException)
        || IsOfDisposedHost(error);

    /// <summary>A host whose start fails is disposed without a stop: its queues end before the consumers.</summary>
    private bool IsOfDisposedHost(Exception error) => error is ObjectDisposedException && Handler.IsContainerDisposed;

    /// <summary>The application's own token is looked at too: a token that is linked to it hears of it a moment later.</summary>
    protected void ThrowIfStopping(CancellationToken stoppingToken)
    {
        stoppingToken.ThrowIfCancellationRequested();
        _lifetime?.ApplicationStopping.ThrowIfCancellationRequested();
    }

    /// <summary>
    /// Calls the handler until it succeeds, or has refused the message or the batch so often; returns its last error, or null.
    /// Errors that pass do not count.
    /// </summary>
    /// <param name="message">The message, unless it is a batch.</param>
    /// <param name="messages">The batch.</param>
    /// <param name="isBatch">Whether it is one.</param>
    /// <param name="refusals">How often it was refused before.</param>
    /// <param name="refusalsMax">At how many refusals it is given up here.</param>
    /// <param name="toldMax">The number that the log is told as the last one.</param>
    /// <param name="stoppingToken">Ends the pauses.</param>
    protected async ValueTask<Exception?> TryHandleAsync(
        T message, ReadOnlyMemory<T> messages, bool isBatch, int refusals, int refusalsMax, int toldMax,
        CancellationToken stoppingToken)
    {
        for (int attempt = 1; ; attempt++)
        {
            Context.Try(attempt);
            if (await TryCallAsync(message, messages, isBatch).ConfigureAwait(false) is not { } error)
                return null;
            bool isTransient = IsTransient(ref error);
            if (isTransient)
            {
                if (HoldUp(ConsumerStatus.Retries, error))
                    Logger.HandlerWaits(error, Queue.Name, State.Name, State.HandlerName, Context.Offset);
            }
            else
            {
                TellRefusal(error, Context.Offset, ++refusals, toldMax);
                if (refusals >= refusalsMax)
                    return error;
                State.Condition = new ConsumerCondition(ConsumerStatus.Retries, error);
            }

            await DelayAsync(attempt, isTransient ? DelayMin : default, stoppingToken).ConfigureAwait(false);
        }
    }

    /// <summary>What the application's own function throws is a refusal, and ends neither the consumer nor a group.</summary>
    private bool IsTransient(ref Exception error)
    {
        try
        {
            return Options.IsTransient(error);
        }
        catch (Exception own)
        {
            error = new AggregateException($"{nameof(Options.IsTransient)} has failed itself.", error, own);
            return false;
        }
    }

    protected void TellRefusal(Exception error, long offset, int refusals, int refusalsMax)
    {
        bool hasStack = _toldStack != error.GetType() || Clock.GetElapsedTime(_toldStackAt) > s_stackInterval;
        if (hasStack)
            (_toldStack, _toldStackAt) = (error.GetType(), Clock.GetTimestamp());
        Logger.HandlerFailed(
            hasStack ? error : null, Queue.Name, State.Name, State.HandlerName, offset, refusals, refusalsMax, error.GetType());
    }

    private bool IsStopping => _impatience.IsCancellationRequested || _stopping.IsCancellationRequested
        || _lifetime is { ApplicationStopping.IsCancellationRequested: true };

    /// <summary>Calls the handler; returns its error, or null.</summary>
    private ValueTask<Exception?> TryCallAsync(T message, ReadOnlyMemory<T> messages, bool isBatch)
    {
        Activity? activity = Meter.StartActivity(Context);
        long began = State.BeginCall(Context.Offset);
        ValueTask call;
        try
        {
            call = isBatch
                ? Handler.HandleAsync(messages, Context, _impatience.Token)
                : Handler.HandleAsync(message, Context, _impatience.Token);
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
        // A handler that ends its call with the application has not refused the message: it comes again.
        catch (Exception error) when (
            (error is not OperationCanceledException || !IsStopping) && !IsOfDisposedHost(error))
        {
            failure = error;
        }
        finally
        {
            EndCall(began, activity, failure);
        }

        // Some clients throw an error of their own when their token is cancelled.
        return failure is null || !_impatience.IsCancellationRequested
            ? failure
            : throw new OperationCanceledException("The application waits no longer.", failure, _impatience.Token);
    }

    private void EndCall(long began, Activity? activity, Exception? error)
    {
        Meter.Processed(State.EndCall(began), error);
        if (activity is null)
            return;
        if (error is not null)
            activity.SetStatus(ActivityStatusCode.Error, ErrorText.Of(error));
        activity.Dispose();
    }

    /// <summary>Random between half and all of it, so that many consumers do not come back at once.</summary>
    protected TimeSpan FindDelay(int attempt, TimeSpan delayMin)
    {
        double factor = Math.Pow(2, Math.Min(attempt - 1, 40));
        double delayMs = Math.Min(Options.RetryDelay.TotalMilliseconds * factor, Options.RetryDelayMax.TotalMilliseconds)
            * (1 + Random.Shared.NextDouble()) / 2;
        return TimeSpan.FromMilliseconds(Math.Max(delayMs, delayMin.TotalMilliseconds));
    }

    protected Task DelayAsync(int attempt, TimeSpan delayMin, CancellationToken stoppingToken) =>
        Task.Delay(FindDelay(attempt, delayMin), Clock, stoppingToken);

    /// <summary>
    /// After a dead letter: many in a row are hardly the messages' fault, and the consumer pauses after each further one.
    /// </summary>
    protected async ValueTask PauseAfterLetterAsync(Exception error, long offset, CancellationToken stoppingToken)
    {
        if (++_lettersInRow < Options.DeadLettersInRowMax)
        {
            Resume();
            return;
        }

        HandlerFailedException pause = new(
            $"{_lettersInRow} messages in a row went to the dead letters, so it is hardly the messages. The consumer pauses "
            + $"after each further one, up to {Options.RetryDelayMax}, until one is handled. The last error is "
            + $"{error.GetType()}: {ErrorText.Of(error)}",
            error, offset);
        if (HoldUp(ConsumerStatus.Pauses, pause))
            Logger.ConsumerPauses(Queue.Name, State.Name, State.HandlerName, _lettersInRow, Options.RetryDelayMax);
        await DelayAsync(_lettersInRow - Options.DeadLettersInRowMax + 1, DelayMin, stoppingToken).ConfigureAwait(false);
    }

    /// <summary>A message or a batch was handled.</summary>
    protected void NoteSuccess()
    {
        _lettersInRow = 0;
        Resume();
    }
}
