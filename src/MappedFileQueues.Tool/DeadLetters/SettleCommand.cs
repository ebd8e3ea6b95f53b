using MappedFileQueues.Engine;

namespace MappedFileQueues.Tool.DeadLetters;

/// <summary>
/// `mfq deadletters requeue` and `delete`. The consumer of the letters reads up to the last letter that was chosen. Those that
/// were chosen are requeued or dropped; the others are appended again, so that they are not lost when the consumer is committed
/// after them. A command that is killed leaves letters, or messages, twice, and none less.
/// </summary>
internal static class SettleCommand
{
    /// <summary>So many letters are settled by one flush.</summary>
    private const int GroupLength = 256;

    public static Command CreateRequeue()
    {
        Argument<string> letters = DeadLettersCommand.LettersArgument();
        Argument<string> queue = ToolOptions.Store(
            "The queue's store, to which the messages are appended again; it is never created.");
        Option<bool> anySource = ToolOptions.Flag(
            "--from-any-store", "Also letters whose message lay in another store, such as one that was restored since.");
        LetterFilter filter = new(isRequired: true);
        StoreOptions opening = new();
        return new Command(
            "requeue",
            "Append the messages of letters to their queue again, and settle the letters: "
                + "`mfq deadletters requeue orders-dead-letters orders --error Timeout`. Every consumer of the queue gets them.")
        {
            letters, queue, anySource, filter, opening,
        }.Does(parsed =>
        {
            MappedFileQueueOptions source = opening.Of(parsed, Path.GetFullPath(parsed.GetRequiredValue(letters)));
            MappedFileQueueOptions options = opening.Of(parsed, Path.GetFullPath(parsed.GetRequiredValue(queue)));
            if (StorePaths.AreSame(source.StorePath, options.StorePath))
                throw new ToolException($"The letters are not their queue: path={options.StorePath}. Name the queue's store.");
            StoreHeader header;
            using (var store = ReadOnlyStore.Open(options.StorePath, verifiesChecksum: false))
                header = StoreHeader.Of(store.Meta);
            bool takesAny = parsed.GetValue(anySource);
            Predicate<Letter> fits = filter.Of(parsed);
            using TargetStore target = new(options, header);
            // Before any letter: one that was appended again would be there twice if the queue cannot be opened.
            target.Open();
            // One that has only the beginning of its message is none that a consumer could read.
            return Settle(parsed, source, target, letter => fits(letter)
                && letter.Content.Message.Length == letter.Content.MessageLength
                && (takesAny || letter.Content.StoreId == header.StoreId));
        });
    }

    public static Command CreateDelete()
    {
        Argument<string> letters = DeadLettersCommand.LettersArgument();
        LetterFilter filter = new(isRequired: true);
        StoreOptions opening = new();
        return new Command(
            "delete", "Settle letters without doing anything: `mfq deadletters delete orders-dead-letters --offset 4096`.")
        {
            letters, filter, opening,
        }.Does(parsed => Settle(
            parsed, opening.Of(parsed, Path.GetFullPath(parsed.GetRequiredValue(letters))), null, filter.Of(parsed)));
    }

    private static int Settle(ParseResult parsed, MappedFileQueueOptions options, TargetStore? target, Predicate<Letter> fits)
    {
        using Interruption interruption = new();
        using StoreEngine letters = AttachedStore.Open(options);
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
        while (!isComplete && !interruption.Token.IsCancellationRequested
            && consumer.TryConsume(out ReadOnlySpan<byte> message, TimeSpan.Zero))
        {
            Letter letter = new(
                consumer.MessageOffset, LetterStore.Parse(message, options.StorePath, consumer.MessageOffset));
            isComplete = letter.Offset >= last;
            if (!fits(letter))
            {
                again ??= letters.Open(() => new MappedFileProducer(letters));
                again.Produce(message, new ProduceOptions { Headers = consumer.Headers });
            }
            else
            {
                target?.Add(letter.Content.Message.Span, consumer.Headers, target.Count);
                settled++;
            }

            consumer.Advance();
            if (++group % GroupLength == 0)
                Commit();
        }

        Commit();
        SettleResult result = new(settled, LetterStore.Count(options.StorePath), isComplete);
        return Result.Write(
            parsed, result, ToolJson.Default.SettleResult,
            (isComplete ? "" : "Interrupted. ") + (target is null ? "Deleted" : "Requeued")
                + $" {Report.Count(settled, "letter")}; {Report.Number(result.Left)} left.",
            isComplete ? ExitCodes.Success : interruption.ExitCode);
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
internal sealed record SettleResult(long Settled, long Left, bool IsComplete);
