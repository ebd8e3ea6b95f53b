using System.CommandLine;
using System.Diagnostics;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Consume;
using MappedFileQueues.Tool.DeadLetters;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Transfer;

/// <summary>`mfq replay`: appends the messages of one store to another one, at a rate.</summary>
internal static class ReplayCommand
{
    public static Command Create()
    {
        Argument<string> store = ToolOptions.PathArgument("STORE", "The store to read; it may be in use, and is only read.");
        Argument<string> target = ToolOptions.PathArgument("TARGET", "The store to append to; made if it is missing.");
        Option<long?> rate = ToolOptions.Number("--rate", "Messages a second; without it, as fast as it goes.", 1, 1_000_000_000);
        Option<long?> from = ToolOptions.Number(
            "--from", "Begin at this offset instead of at the first message.", 0, long.MaxValue);
        Option<long?> count = ToolOptions.Number("--count", "End after this many messages.", 0, long.MaxValue);
        Option<bool> skipDamage = ToolOptions.Flag("--skip-damage", "Continue after damage, and tell it on standard error.");
        Option<TimeSpan?> lockTimeout = StoreOptions.LockTimeout();
        Option<bool> allowFileSystem = StoreOptions.AllowFileSystem();
        Command command = new(
            "replay",
            "Append the messages that a store holds now to another one, at a rate: `mfq replay orders orders-test --rate 1000`.")
        {
            store, target, rate, from, count, skipDamage, lockTimeout, allowFileSystem,
        };
        command.SetAction(parsed =>
        {
            using Interruption interruption = new();
            ConsumePlan plan = ConsumePlan.WithoutTrace(
                parsed.GetRequiredValue(store), parsed.GetValue(from), parsed.GetValue(skipDamage));
            string path = Path.GetFullPath(parsed.GetRequiredValue(target));
            if (StorePaths.AreSame(plan.StorePath, path))
                throw new ToolException($"A store is not replayed into itself: path={path}. Name another target.");
            if (Directory.Exists(path) && LetterStore.HoldsLetters(plan.StorePath))
                throw new ToolException($"These are dead letters, and no messages of the target: path={plan.StorePath}. "
                    + "`mfq deadletters requeue` appends their messages; a copy needs a target that is missing.");
            MappedFileQueueOptions options = new()
            {
                StorePath = path,
                LockTimeout = parsed.GetValue(lockTimeout) ?? TimeSpan.Zero,
                DangerouslyAllowFileSystem = parsed.GetValue(allowFileSystem),
            };
            TransferResult result = Replay(
                plan, options, parsed.GetValue(rate), parsed.GetValue(count) ?? long.MaxValue, interruption.Token);
            if (OutputOption.IsJson(parsed))
                OutputOption.WriteJson(result, TransferJsonContext.Default.TransferResult);
            else
                OutputLine.Write((result.IsComplete ? "" : "Interrupted. ")
                    + $"Replayed {Report.Count(result.Messages, "message")}, {Report.Bytes(result.Bytes)}.");
            return result.IsComplete ? ExitCodes.Success : interruption.ExitCode;
        });
        return command;
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
