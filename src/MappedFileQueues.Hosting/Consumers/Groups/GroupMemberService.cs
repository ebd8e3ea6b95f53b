using System.Diagnostics;
using MappedFileQueues.Hosting.Queues;
using MappedFileQueues.Hosting.Telemetry;
using Microsoft.Extensions.Hosting;

namespace MappedFileQueues.Hosting.Consumers.Groups;

/// <summary>
/// Runs one member of a group in the application: takes a message, calls the handler, acknowledges.
/// <code>
/// step                          a process that dies after it
/// 1 take                        another member gets the message, with one delivery more
/// 2 the handler returns         the same: handlers see a message at least once
///   it throws
///   2a the message is given     some member gets it when its delay is over, with one delivery more
///      back with a delay
///   2b at the last delivery     another member gets it, and moves it to the letters: it may be there twice
///      the dead letter is on
///      disk
/// 3 acknowledge                 nobody gets it again
/// </code>
/// A message that was handed out too often, because members died with it, goes to the dead letters without a call. A dead letter
/// that cannot be appended stops its message only: that is given back, and tried again when it comes. An error of the handler
/// that passes is no delivery: the message stays in hand, and the handler is called again until it succeeds.
/// </summary>
/// <typeparam name="T">What the handler gets.</typeparam>
internal sealed class GroupMemberService<T> : HandlerService<T>
{
    /// <summary>When a message comes again, at the earliest, whose dead letter cannot be appended.</summary>
    private static readonly TimeSpan s_letterPause = TimeSpan.FromSeconds(5);

    private readonly string _group;
    private readonly Func<GroupOptions, GroupSource<T>> _open;
    private Func<MessageHeaders?>? _readHeaders;
    private Type? _toldLetterTrouble;

    /// <param name="queue">The queue.</param>
    /// <param name="key">What tells this member from the others in the data of health.</param>
    /// <param name="section">The key of its options.</param>
    /// <param name="options">Its options.</param>
    /// <param name="open">Opens a member.</param>
    /// <param name="handler">The handler.</param>
    /// <param name="meter">Counts what it does.</param>
    /// <param name="lifetime">Tells when the application stops; null where there is none.</param>
    public GroupMemberService(
        NamedQueue queue,
        string key,
        string section,
        HostedConsumerOptions options,
        Func<GroupOptions, GroupSource<T>> open,
        HandlerCall<T> handler,
        QueueMeter meter,
        IHostApplicationLifetime? lifetime)
        : base(
            queue, QueueNames.NameOfGroup(options.Group!), key, section, options,
            new ConsumeContext { QueueName = queue.Name, ConsumerName = options.Group! }, handler, meter, lifetime)
    {
        _group = options.Group!;
        _open = open;
    }

    protected override async Task RunSessionAsync(CancellationToken stoppingToken)
    {
        using GroupSource<T> source = _open(Options.ToGroupOptions(LetterPath));
        BeginSession(FindFloor());
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
            Committed = FindFloor();
        }
    }

    /// <summary>Everything before it is done; what was known last when the store cannot be looked at.</summary>
    private long FindFloor()
    {
        try
        {
            return Queue.GetInfo!().Groups.FirstOrDefault(
                group => group.Name.Equals(_group, StringComparison.OrdinalIgnoreCase))?.FloorOffset ?? Committed ?? 0;
        }
        catch (Exception error) when (error is MappedFileQueueException or ObjectDisposedException)
        {
            return Committed ?? 0;
        }
    }

    private async Task RunAsync(GroupSource<T> source, CancellationToken stoppingToken)
    {
        while (true)
        {
            ThrowIfStopping(stoppingToken);
            bool found;
            T message;
            try
            {
                found = source.TryTake(out message);
            }
            catch (UnreadableMessageException error)
            {
                await RefuseAsync(source, error.InnerException!, stoppingToken).ConfigureAwait(false);
                continue;
            }

            if (!found)
                await WaitAsync(source, stoppingToken).ConfigureAwait(false);
            else if (!await TryGiveUpAsync(source, stoppingToken).ConfigureAwait(false))
                await HandleAsync(source, source.Offset, message, default, source.DeliveryCount, stoppingToken)
                    .ConfigureAwait(false);
        }
    }

    private async Task RunBatchesAsync(GroupSource<T> source, CancellationToken stoppingToken)
    {
        while (true)
        {
            ThrowIfStopping(stoppingToken);
            ReadOnlyMemory<T> messages;
            List<ActivityLink>? links = QueueMeter.Activities.HasListeners() ? [] : null;
            int count;
            try
            {
                count = source.TakeBatch(Options.BatchLengthMax, out messages, links);
            }
            catch (UnreadableMessageException error)
            {
                await RefuseAsync(source, error.InnerException!, stoppingToken).ConfigureAwait(false);
                continue;
            }

            Context.Links = links;
            if (count == 0)
                await WaitAsync(source, stoppingToken).ConfigureAwait(false);
            else if (count > 1)
                await HandleBatchAsync(source, messages, stoppingToken).ConfigureAwait(false);
            else if (!await TryGiveUpAsync(source, stoppingToken).ConfigureAwait(false))
                await HandleAsync(source, source.Offset, default!, messages, source.DeliveryCount, stoppingToken)
                    .ConfigureAwait(false);
        }
    }

    private ValueTask<bool> WaitAsync(GroupSource<T> source, CancellationToken stoppingToken)
    {
        ValueTask<bool> wait = source.WaitAsync(stoppingToken);
        if (!wait.IsCompleted)
            Resume();
        return wait;
    }

    /// <summary>A message that was handed out too often: members have died with it, or it could not become a letter.</summary>
    private async ValueTask<bool> TryGiveUpAsync(GroupSource<T> source, CancellationToken stoppingToken)
    {
        int before = source.DeliveryCount - 1;
        if (before < Options.AttemptsMax)
            return false;
        var error = new InvalidOperationException($"The message was handed out {before} times.");
        await MoveToLettersAsync(source, source.Offset, before, "DeliveriesMax", error, stoppingToken).ConfigureAwait(false);
        return true;
    }

    /// <summary>The message in hand cannot be read: no further delivery can change that.</summary>
    private ValueTask RefuseAsync(GroupSource<T> source, Exception error, CancellationToken stoppingToken)
    {
        // One that came with a batch, which a fence has taken away.
        if (!source.IsInHand(source.Offset))
            return default;
        TellRefusal(error, source.Offset, 1, 1);
        return MoveToLettersAsync(
            source, source.Offset, source.DeliveryCount, DeadLetter.Describe(error).Type, error, stoppingToken);
    }

    /// <summary>
    /// One message: of a handler of messages, or as a batch of one. When it is refused and the group has no room for it, it has
    /// its next attempts here: they are counted as deliveries.
    /// </summary>
    private async ValueTask HandleAsync(
        GroupSource<T> source, long offset, T message, ReadOnlyMemory<T> batch, int deliveries, CancellationToken stoppingToken)
    {
        Context.MoveTo(offset, nextOffset: 0, Handler.TakesBatches ? null : _readHeaders, deliveries);
        while (true)
        {
            ThrowIfStopping(stoppingToken);
            Exception? error = await TryHandleAsync(
                message, batch, Handler.TakesBatches, deliveries - 1, deliveries, Options.AttemptsMax, stoppingToken)
                .ConfigureAwait(false);
            if (error is null)
            {
                Finish(source, new ReadOnlyMemory<long>([offset]));
                return;
            }

            if (deliveries >= Options.AttemptsMax)
            {
                await MoveToLettersAsync(
                    source, offset, deliveries, DeadLetter.Describe(error).Type, error, stoppingToken).ConfigureAwait(false);
                return;
            }

            if (TryReject(source, offset, FindDelay(deliveries, default)))
                return;
            await DelayAsync(deliveries++, default, stoppingToken).ConfigureAwait(false);
        }
    }

    /// <summary>
    /// A batch of messages that are handed out for the first time. When it is refused, its messages are given back: then each
    /// comes alone.
    /// </summary>
    private async ValueTask HandleBatchAsync(
        GroupSource<T> source, ReadOnlyMemory<T> messages, CancellationToken stoppingToken)
    {
        ReadOnlyMemory<long> offsets = source.Offsets;
        Context.MoveTo(offsets.Span[0], nextOffset: 0, readHeaders: null, source.DeliveryCount);
        if (await TryHandleAsync(default!, messages, isBatch: true, 0, 1, Options.AttemptsMax, stoppingToken)
            .ConfigureAwait(false) is null)
        {
            Finish(source, offsets);
            return;
        }

        Context.Links = null;
        for (int i = 0; i < messages.Length; i++)
        {
            // A fence takes all messages of a record, and tells of them once.
            if (!source.IsInHand(offsets.Span[i]))
                continue;
            // Where the batch was the only delivery, and where none has room, the message has its own here.
            if (Options.AttemptsMax == 1 || !TryReject(source, offsets.Span[i], FindDelay(1, default)))
                await HandleAsync(source, offsets.Span[i], default!, messages.Slice(i, 1), 1, stoppingToken)
                    .ConfigureAwait(false);
        }
    }

    private void Finish(GroupSource<T> source, ReadOnlyMemory<long> offsets)
    {
        long began = Meter.TimesCommits ? Stopwatch.GetTimestamp() : 0;
        try
        {
            source.Acknowledge(offsets.Span);
            Meter.Consumed(offsets.Length);
        }
        catch (GroupMemberFencedException)
        {
            TellFenced(offsets.Span[0]);
        }

        if (Options.DurableCommits)
            source.Flush();
        if (began != 0)
            Meter.Committed(Stopwatch.GetElapsedTime(began));
        NoteSuccess();
    }

    /// <summary>False when so many messages wait already that the group has no room for another one.</summary>
    private bool TryReject(GroupSource<T> source, long offset, TimeSpan delay)
    {
        try
        {
            source.Reject(offset, delay);
        }
        catch (GroupMemberFencedException)
        {
            TellFenced(offset);
        }
        catch (QueueFullException)
        {
            return false;
        }

        return true;
    }

    private async ValueTask MoveToLettersAsync(
        GroupSource<T> source, long offset, int deliveries, string errorType, Exception error, CancellationToken stoppingToken)
    {
        while (true)
        {
            try
            {
                source.MoveToLetters(offset, deliveries, errorType, ErrorText.Of(error));
                break;
            }
            catch (GroupMemberFencedException)
            {
                // The letter is there, and whoever has the message now appends another one.
                TellFenced(offset);
                return;
            }
            catch (Exception failure) when (failure is not ObjectDisposedException)
            {
                TellLetterTrouble(failure, offset, errorType, error);
                TimeSpan pause = FindDelay(deliveries, s_letterPause);
                State.NoteLetterTrouble(failure, pause + s_letterPause);
                if (TryReject(source, offset, pause))
                    return;
            }

            await Task.Delay(s_letterPause, Clock, stoppingToken).ConfigureAwait(false);
        }

        _toldLetterTrouble = null;
        Logger.DeadLettered(Queue.Name, State.Name, offset, LetterPath, errorType);
        Meter.DeadLettered(errorType);
        Meter.Consumed(1);
        await PauseAfterLetterAsync(error, offset, stoppingToken).ConfigureAwait(false);
    }

    private void TellLetterTrouble(Exception failure, long offset, string errorType, Exception error)
    {
        if (_toldLetterTrouble == failure.GetType())
            return;
        _toldLetterTrouble = failure.GetType();
        Logger.DeadLetterFailed(
            new HandlerFailedException(
                $"{failure.Message} The handler failed with {errorType}: {ErrorText.Of(error)}", failure, offset),
            Queue.Name, State.Name, offset, LetterPath);
    }

    private void TellFenced(long offset) => Logger.MemberFenced(Queue.Name, State.Name, State.HandlerName, offset);
}
