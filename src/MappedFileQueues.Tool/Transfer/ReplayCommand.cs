using System.Diagnostics;
using MappedFileQueues.Tool.DeadLetters;

namespace MappedFileQueues.Tool.Transfer;

/// <summary>`mfq replay`: appends the messages of one store to another one, at a rate or at the pace of their times.</summary>
internal static class ReplayCommand
{
    public static Command Create()
    {
        Argument<string> store = ToolOptions.Store("The store to read; it may be in use, and is only read.");
        Argument<string> target = ToolOptions.PathArgument("TARGET", "The store to append to; made if it is missing.");
        Option<long?> rate = ToolOptions.Number("--rate", "Messages a second; without it, as fast as it goes.", 1, 1_000_000_000);
        Option<double?> speed = ToolOptions.Factor(
            "--speed",
            "Go by the times in the messages' headers, this many times as fast, such as 10x or 0.5x; a message without a time "
                + "follows at once.");
        Option<long?> count = ToolOptions.Number("--count", "End after this many messages.", 0, long.MaxValue);
        SourceOptions source = new();
        StoreOptions opening = new();
        Command command = new(
            "replay",
            "Append the messages that a store holds now to another one, at a rate: `mfq replay orders orders-test --rate 1000`.")
        {
            store, target, rate, speed, count, source, opening,
        };
        command.Validators.Add(result =>
        {
            if (result.GetResult(rate) is not null && result.GetResult(speed) is not null)
                result.AddError("--rate and --speed exclude each other.");
        });
        return command.Does(parsed =>
        {
            using Interruption interruption = new();
            ConsumePlan plan = source.Of(parsed, parsed.GetRequiredValue(store));
            string path = SystemPath.Full(parsed.GetRequiredValue(target));
            if (StorePaths.IsInside(plan.StorePath, path))
                throw new ToolException($"A store is not replayed into itself: path={path}. Name another target.");
            if (Directory.Exists(path) && LetterStore.HoldsLetters(plan.StorePath))
                throw new ToolException($"These are dead letters, and no messages of the target: path={plan.StorePath}. "
                    + "`mfq deadletters retry` appends their messages; a copy needs a target that is missing.");
            return Replay(plan, opening.Of(parsed, path), new Pace(parsed.GetValue(rate), parsed.GetValue(speed)),
                parsed.GetValue(count) ?? long.MaxValue, interruption.Token).Write(parsed, "Replayed", interruption);
        });
    }

    private static TransferResult Replay(
        ConsumePlan plan, MappedFileQueueOptions options, Pace pace, long countMax, CancellationToken stopped)
    {
        using WholeStore source = new(plan);
        using TargetStore target = new(options, source.Header);
        using ProgressLine progress = new("replaying");
        while (target.Count < countMax && source.TryRead(progress, stopped, out ReadOnlySpan<byte> message))
        {
            if (!pace.Wait(target.Count, source.Headers.Time, stopped))
                break;
            try
            {
                target.Add(message, source.Headers.IsEmpty ? null : source.Headers.ToHeaders(), target.Count);
            }
            catch (MappedFileQueueException error)
            {
                throw new ToolException($"{error.Message} Replayed before that: messages={target.Count}. Continue with "
                    + $"--from {source.MessageOffset}.");
            }
        }

        if (!stopped.IsCancellationRequested)
            target.Open();
        target.Flush();
        return new TransferResult(target.Count, target.Bytes, IsComplete: !stopped.IsCancellationRequested);
    }

    /// <summary>When the next message is due, by the first one, so that no delay adds up.</summary>
    private sealed class Pace(long? rate, double? speed)
    {
        private readonly long _begun = Stopwatch.GetTimestamp();
        private DateTimeOffset? _first;

        /// <summary>Waits until a message is due; false at a signal.</summary>
        /// <param name="before">How many were appended before it.</param>
        /// <param name="time">That of its headers; a clock that was set back lets messages follow at once.</param>
        /// <param name="stopped">The signal.</param>
        public bool Wait(long before, DateTimeOffset? time, CancellationToken stopped)
        {
            _first ??= time;
            double due = rate is { } perSecond ? (double)before / perSecond
                : speed is { } factor && time is not null ? (time.Value - _first!.Value).TotalSeconds / factor
                : 0;
            while (due - Stopwatch.GetElapsedTime(_begun).TotalSeconds is >= 0.001 and var early)
            {
                // A wait takes no more than 49 days.
                if (stopped.WaitHandle.WaitOne(TimeSpan.FromSeconds(Math.Min(early, 86_400))))
                    return false;
            }

            return true;
        }
    }
}
