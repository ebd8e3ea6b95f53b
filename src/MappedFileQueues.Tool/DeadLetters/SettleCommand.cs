using System.CommandLine;
using MappedFileQueues.Inspection;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Output;
using MappedFileQueues.Tool.Transfer;

namespace MappedFileQueues.Tool.DeadLetters;

/// <summary>
/// `mfq deadletters requeue` and `delete`. The consumer of the letters reads up to the last letter that was chosen. Those that
/// were chosen are requeued or dropped; the others are appended again, so that they are not lost when the consumer is committed
/// behind them. A command that is killed leaves letters, or messages, twice, and none less.
/// </summary>
internal static class SettleCommand
{
    /// <summary>So many letters are settled by one flush.</summary>
    private const int GroupLength = 256;

    public static Command CreateRequeue()
    {
        Argument<string> queue = ToolOptions.PathArgument(
            "STORE", "The queue's store, to which the messages are appended again; it is never created.");
        Option<bool> anySource = ToolOptions.Flag(
            "--from-any-store", "Also letters whose message lay in another store, such as one that was restored since.");
        Command command = new(
            "requeue",
            "Append the messages of letters to their queue again, and settle the letters: "
                + "`mfq deadletters requeue orders-dead-letters orders --error Timeout`. Every consumer of the queue gets them.");
        Add(command, queue, anySource);
        return command;
    }

    public static Command CreateDelete()
    {
        Command command = new(
            "delete", "Settle letters without doing anything: `mfq deadletters delete orders-dead-letters --offset 4096`.");
        Add(command, queue: null, anySource: null);
        return command;
    }

    private static void Add(Command command, Argument<string>? queue, Option<bool>? anySource)
    {
        Argument<string> letters = DeadLettersCommand.LettersArgument();
        LetterFilter filter = new();
        Option<TimeSpan?> lockTimeout = StoreOptions.LockTimeout();
        Option<bool> allowFileSystem = StoreOptions.AllowFileSystem();
        command.Add(letters);
        if (queue is not null && anySource is not null)
        {
            command.Add(queue);
            command.Add(anySource);
        }

        filter.AddTo(command, isRequired: true);
        command.Add(lockTimeout);
        command.Add(allowFileSystem);
        command.SetAction(parsed =>
        {
            MappedFileQueueOptions Options(string path) => new()
            {
                StorePath = Path.GetFullPath(path),
                LockTimeout = parsed.GetValue(lockTimeout) ?? TimeSpan.Zero,
                DangerouslyAllowFileSystem = parsed.GetValue(allowFileSystem),
            };
            using Interruption interruption = new();
            MappedFileQueueOptions source = Options(parsed.GetRequiredValue(letters));
            Predicate<Letter> fits = filter.Of(parsed);
            SettleResult result;
            if (queue is null)
            {
                result = Settle(source, fits, null, interruption.Token);
            }
            else
            {
                MappedFileQueueOptions options = Options(parsed.GetRequiredValue(queue));
                if (StorePaths.AreSame(source.StorePath, options.StorePath))
                    throw new ToolException(
                        $"The letters are not their queue: path={options.StorePath}. Name the queue's store.");
                StoreHeader header;
                using (var store = ReadOnlyStore.Open(options.StorePath, verifiesChecksum: false))
                    header = StoreHeader.Of(store.Meta);
                bool takesAny = parsed.GetValue(anySource!);
                using TargetStore target = new(options, header);
                // Before any letter: one that was appended again would be there twice if the queue cannot be opened.
                target.Open();
                // One that has only the beginning of its message is none that a consumer could read.
                bool MayBeRequeued(Letter letter) => fits(letter) && letter.Content.Message.Length == letter.Content.MessageLength
                    && (takesAny || letter.Content.StoreId == header.StoreId);
                result = Settle(source, MayBeRequeued, target, interruption.Token);
            }

            if (OutputOption.IsJson(parsed))
                OutputOption.WriteJson(result, LettersJsonContext.Default.SettleResult);
            else
                OutputLine.Write((result.IsComplete ? "" : "Interrupted. ")
                    + $"{(queue is null ? "Deleted" : "Requeued")} {Report.Count(result.Settled, "letter")}; "
                    + $"{Report.Number(result.Left)} left.");
            return result.IsComplete ? ExitCodes.Success : interruption.ExitCode;
        });
    }

    private static SettleResult Settle(
        MappedFileQueueOptions options, Predicate<Letter> fits, TargetStore? target, CancellationToken stopped)
    {
        using QueueCore letters = AttachedStore.Open(options);
        using MappedFileConsumer consumer = letters.OpenConsumer(
            LetterStore.Consumer,
            new ConsumerOptions { Start = QueueStart.Earliest, OnOutOfRange = OutOfRangePolicy.Earliest },
            opened => new MappedFileConsumer(letters, opened));
        // With the name held: nobody else settles letters now.
        long last = LetterStore.Read(options.StorePath).Where(letter => fits(letter)).LastOrDefault()?.Offset ?? -1;
        MappedFileProducer? again = null;
        long settled = 0;
        int group = 0;
        bool isComplete = last < 0;
        while (!isComplete && !stopped.IsCancellationRequested
            && consumer.TryConsume(out ReadOnlySpan<byte> message, TimeSpan.Zero))
        {
            Letter letter = new(
                consumer.MessageOffset, LetterStore.Parse(message, options.StorePath, consumer.MessageOffset));
            isComplete = letter.Offset >= last;
            if (!fits(letter))
            {
                again ??= letters.Open(() => new MappedFileProducer(letters));
                again.Produce(message);
            }
            else
            {
                target?.Add(letter.Content.Message.Span, target.Count);
                settled++;
            }

            consumer.Advance();
            if (++group % GroupLength == 0)
                Commit();
        }

        Commit();
        return new SettleResult(settled, LetterStore.Count(options.StorePath), isComplete);

        // First what was appended, then the offset that says so.
        void Commit()
        {
            target?.Flush();
            if (again is not null)
                letters.Flush();
            consumer.Commit(durable: true);
        }
    }
}

/// <summary>The result of `requeue` and `delete`.</summary>
/// <param name="Settled">The letters that were requeued or deleted.</param>
/// <param name="Left">The letters that nobody has settled.</param>
/// <param name="IsComplete">False when a signal came first.</param>
internal sealed record SettleResult(long Settled, long Left, bool IsComplete);
