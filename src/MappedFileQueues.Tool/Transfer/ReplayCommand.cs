using System.Diagnostics;
using MappedFileQueues.Tool.DeadLetters;

namespace MappedFileQueues.Tool.Transfer;

/// <summary>`mfq replay`: appends the messages of one store to another one, at a rate.</summary>
internal static class ReplayCommand
{
    public static Command Create()
    {
        Argument<string> store = ToolOptions.Store("The store to read; it may be in use, and is only read.");
        Argument<string> target = ToolOptions.PathArgument("TARGET", "The store to append to; made if it is missing.");
        Option<long?> rate = ToolOptions.Number("--rate", "Messages a second; without it, as fast as it goes.", 1, 1_000_000_000);
        Option<long?> count = ToolOptions.Number("--count", "End after this many messages.", 0, long.MaxValue);
        SourceOptions source = new();
        StoreOptions opening = new();
        return new Command(
            "replay",
            "Append the messages that a store holds now to another one, at a rate: `mfq replay orders orders-test --rate 1000`.")
        {
            store, target, rate, count, source, opening,
        }.Does(parsed =>
        {
            using Interruption interruption = new();
            ConsumePlan plan = source.Of(parsed, parsed.GetRequiredValue(store));
            string path = Path.GetFullPath(parsed.GetRequiredValue(target));
            if (StorePaths.AreSame(plan.StorePath, path))
                throw new ToolException($"A store is not replayed into itself: path={path}. Name another target.");
            if (Directory.Exists(path) && LetterStore.HoldsLetters(plan.StorePath))
                throw new ToolException($"These are dead letters, and no messages of the target: path={plan.StorePath}. "
                    + "`mfq deadletters requeue` appends their messages; a copy needs a target that is missing.");
            return Replay(plan, opening.Of(parsed, path), parsed.GetValue(rate), parsed.GetValue(count) ?? long.MaxValue,
                interruption.Token).Write(parsed, "Replayed", interruption);
        });
    }

    private static TransferResult Replay(
        ConsumePlan plan, MappedFileQueueOptions options, long? rate, long countMax, CancellationToken stopped)
    {
        using WholeStore source = new(plan);
        using TargetStore target = new(options, source.Header);
        using ProgressLine progress = new("replaying");
        long begun = Stopwatch.GetTimestamp();
        while (target.Count < countMax && source.TryRead(progress, stopped, out ReadOnlySpan<byte> message))
        {
            if (!Wait(begun, target.Count, rate, stopped))
                break;
            try
            {
                target.Add(message, target.Count);
            }
            catch (MappedFileQueueException error)
            {
                throw new ToolException($"{error.Message} Replayed before that: messages={target.Count}. Go on with "
                    + $"--from {source.MessageOffset}.");
            }
        }

        if (!stopped.IsCancellationRequested)
            target.Open();
        target.Flush();
        return new TransferResult(target.Count, target.Bytes, IsComplete: !stopped.IsCancellationRequested);
    }

    /// <summary>
    /// Waits until the next message is due, by the time of the first one, so that no delay adds up; false at a signal.
    /// </summary>
    private static bool Wait(long begun, long count, long? rate, CancellationToken stopped)
    {
        if (rate is null)
            return true;
        TimeSpan early = TimeSpan.FromSeconds((double)count / rate.Value) - Stopwatch.GetElapsedTime(begun);
        return early < TimeSpan.FromMilliseconds(1) || !stopped.WaitHandle.WaitOne(early);
    }
}
