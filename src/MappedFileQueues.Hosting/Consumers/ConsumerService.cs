using System.Diagnostics;
using MappedFileQueues.Hosting.Queues;
using MappedFileQueues.Hosting.Telemetry;
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
internal sealed class ConsumerService<T> : HandlerService<T>
{
    private readonly Func<ConsumerOptions, CancellationToken, ValueTask<MessageSource<T>>> _open;
    private readonly DeadLetterBox _deadLetters;
    private Func<MessageHeaders?>? _readHeaders;

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
        : base(
            queue, consumer, key: consumer, QueueNames.ConsumerPathOf(queue.Name, consumer), options,
            new ConsumeContext { QueueName = queue.Name, ConsumerName = consumer }, handler, meter, lifetime)
    {
        _open = open;
        _deadLetters = new DeadLetterBox(LetterPath, queue.Options);
    }

    public override void Dispose()
    {
        base.Dispose();
        _deadLetters.Dispose();
    }

    protected override async Task RunSessionAsync(CancellationToken stoppingToken)
    {
        using MessageSource<T> source = await OpenAsync(stoppingToken).ConfigureAwait(false);
        BeginSession(source.CommittedOffset);
        _readHeaders = () => source.Headers;
        try
        {
            if (Handler.TakesBatches)
                await RunBatchesAsync(source, stoppingToken).ConfigureAwait(false);
            else
                await RunAsync(source, stoppingToken).ConfigureAwait(false);
        }
        finally
        {
            Committed = source.CommittedOffset;
        }
    }

    private async ValueTask<MessageSource<T>> OpenAsync(CancellationToken stoppingToken)
    {
        ValueTask<MessageSource<T>> opening = _open(Options.ToOptions(), stoppingToken);
        if (!opening.IsCompleted)
            StandBy();
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
                await HandleAsync(source, message, Options.AttemptsMax, stoppingToken).ConfigureAwait(false);
            else
                await WaitAsync(source, stoppingToken).ConfigureAwait(false);
        }
    }

    /// <summary>One message, from the first attempt to the commit.</summary>
    private async ValueTask HandleAsync(
        MessageSource<T> source, T message, int refusalsMax, CancellationToken stoppingToken)
    {
        Context.MoveTo(source.Offset, source.NextOffset, _readHeaders);
        Context.Links = null;
        Exception? error = await TryHandleAsync(
            message, default, isBatch: false, refusals: 0, refusalsMax, refusalsMax, stoppingToken).ConfigureAwait(false);
        if (error is not null)
            await GiveUpAsync(source, error, Context.Attempt, stoppingToken).ConfigureAwait(false);
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
                count = source.ReadBatch(Options.BatchLengthMax, stoppingToken, out messages, links);
            }
            catch (UnreadableMessageException unreadable)
            {
                await RefuseAsync(source, unreadable.InnerException!, stoppingToken).ConfigureAwait(false);
                continue;
            }

            Context.MoveTo(offset, source.Offset, readHeaders: null);
            Context.Links = links;
            Exception? error = await TryHandleAsync(
                default!, messages, isBatch: true, refusals: 0, Options.AttemptsMax, Options.AttemptsMax, stoppingToken)
                .ConfigureAwait(false);
            if (error is null)
                await FinishAsync(source, count).ConfigureAwait(false);
            else
                await HandleEachAsync(source, end: source.Offset, stoppingToken).ConfigureAwait(false);
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
        if (Options.OnFailure != HandlerFailureAction.DeadLetter)
            throw new HandlerFailedException(
                $"The handler failed at every attempt: queue={Queue.Name}, consumer=\"{State.Name}\", offset={offset}, "
                + $"attempts={attempts}. Correct the handler and start the application again, or set OnFailure to DeadLetter.",
                error, offset);
        await AppendLetterAsync(source, error, attempts, stoppingToken).ConfigureAwait(false);
        string errorType = DeadLetter.Describe(error).Type;
        Logger.DeadLettered(Queue.Name, State.Name, offset, LetterPath, errorType);
        Meter.DeadLettered(errorType);
        await CommitAsync(source, 1).ConfigureAwait(false);
        await PauseAfterLetterAsync(error, offset, stoppingToken).ConfigureAwait(false);
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
                MappedFileQueueInfo info = Queue.LastInfo;
                DeadLetter letter = new()
                {
                    StoreId = info.StoreId,
                    Epoch = info.Epoch,
                    Offset = offset,
                    Queue = Queue.Name,
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
                    Logger.DeadLetterFailed(failure, Queue.Name, State.Name, offset, LetterPath);
            }

            await DelayAsync(attempt, DelayMin, stoppingToken).ConfigureAwait(false);
        }
    }

    /// <summary>Commits what was handled.</summary>
    private async ValueTask FinishAsync(MessageSource<T> source, int count)
    {
        await CommitAsync(source, count).ConfigureAwait(false);
        NoteSuccess();
    }

    private async ValueTask CommitAsync(MessageSource<T> source, int count)
    {
        long began = Meter.TimesCommits ? Stopwatch.GetTimestamp() : 0;
        if (Options.DurableCommits)
            await source.CommitAsync().ConfigureAwait(false);
        else
            source.Commit();
        if (began != 0)
            Meter.Committed(Stopwatch.GetElapsedTime(began));
        Meter.Consumed(count);
    }
}
