using System.Text;
using System.Text.Json.Serialization;
using System.Text.Unicode;

namespace MappedFileQueues.Tool.DeadLetters;

/// <summary>`mfq deadletters`: the messages that handlers of hosted consumers, or the brokers of bridges, have refused.</summary>
internal static class DeadLettersCommand
{
    private const int ErrorLengthMax = 80;

    public static Command Create() => new(
        "deadletters",
        "Show, retry and delete the messages that handlers or brokers have refused: "
            + "`mfq deadletters list orders-dead-letters`.")
    {
        CreateList(), CreateShow(), SettleCommand.CreateRetry(), SettleCommand.CreateDelete(),
    };

    /// <summary>The first argument of every command.</summary>
    public static Argument<string> LettersArgument() =>
        ToolOptions.PathArgument("LETTERS", "The store of the letters; by default it is beside the queue's: QUEUE-dead-letters.");

    private static Command CreateList()
    {
        Argument<string> letters = LettersArgument();
        LetterFilter filter = new(isRequired: false);
        return new Command(
            "list", "Show the letters that were not settled, the oldest first: `mfq deadletters list orders-dead-letters`.")
        {
            letters, filter,
        }.Does(parsed =>
        {
            Func<DeadLetter, bool> fits = filter.Of(parsed);
            LetterList found = new([
                .. LetterStore.Read(parsed.GetRequiredValue(letters)).Where(fits)
                    .Select(letter => LetterLine.Of(letter)),
            ]);
            return Result.Write(parsed, found, ToolJson.Default.LetterList, Print);
        });
    }

    private static Command CreateShow()
    {
        Argument<string> letters = LettersArgument();
        Argument<long> offset = new("OFFSET") { Description = "The letter, as `mfq deadletters list` shows it." };
        FormatOptions format = new();
        return new Command(
            "show", "Show one letter with its whole error and its message: `mfq deadletters show orders-dead-letters 4096`.")
        {
            letters, offset, format,
        }.Does(parsed =>
        {
            string path = parsed.GetRequiredValue(letters);
            long at = parsed.GetRequiredValue(offset);
            DeadLetter letter = LetterStore.Read(path).FirstOrDefault(letter => letter.LetterOffset == at)
                ?? throw new ToolException($"No letter that was not settled is there: offset={at}, "
                    + $"path={SystemPath.Full(path)}. `mfq deadletters list` shows those that there are.");
            // The message as text only where it is asked for: it may be long.
            return Result.Write(
                parsed, new LetterList([LetterLine.Of(letter, withMessage: OutputOption.IsJson(parsed))]),
                ToolJson.Default.LetterList, _ => Print(letter, format.Of(parsed, path)));
        });
    }

    private static void Print(LetterList list)
    {
        Report report = new("Dead letters", "offset", "time", "queue", "consumer", "attempts", "bytes", "error");
        foreach (LetterLine letter in list.Letters)
        {
            string error = $"{letter.ErrorType}: {letter.Error}".ReplaceLineEndings(" ");
            report.Add(
                $"{letter.Offset}", $"{letter.Time:u}", letter.Queue, ConsumerName.Show(letter.Consumer), $"{letter.Attempts}",
                letter.Length < letter.MessageLength
                    ? $"{Report.Number(letter.Length)} of {Report.Number(letter.MessageLength)}"
                    : Report.Number(letter.Length),
                error.Length <= ErrorLengthMax ? error : $"{error[..ErrorLengthMax]}…");
        }

        report.WriteIfAny();
        OutputLine.Write($"{Report.Count(list.Letters.Count, "letter")}.");
    }

    private static void Print(DeadLetter letter, MessageFormat format)
    {
        Report report = new("Dead letter", "", "");
        report.Add("offset", $"{letter.LetterOffset}");
        report.Add("time", $"{letter.Time:u}");
        report.Add("queue", letter.Queue);
        report.Add("consumer", ConsumerName.Show(letter.Consumer));
        report.Add("attempts", $"{letter.Attempts}");
        report.Add("error", letter.ErrorType);
        report.Add("", letter.Error);
        report.Add("message", $"offset {letter.Offset}, epoch {letter.Epoch}, store {letter.StoreId}");
        report.Write();
        ToolConsole.Out.Flush();
        StandardOutput.Write(output =>
        {
            using MessageWriter writer = new(output, format);
            writer.Write(letter.Message.Span, default, letter.Offset);
        });
    }
}

/// <summary>A letter for programs; `show` adds the message, as text or, when it is not UTF-8, as base64.</summary>
internal sealed record LetterLine(
    long Offset, DateTimeOffset Time, string Queue, string Consumer, int Attempts, string ErrorType, string Error,
    Guid StoreId, long Epoch, long MessageOffset, int Length, int MessageLength)
{
    [JsonIgnore(Condition = JsonIgnoreCondition.WhenWritingNull)]
    public string? Text { get; init; }

    [JsonIgnore(Condition = JsonIgnoreCondition.WhenWritingNull)]
    public byte[]? Base64 { get; init; }

    public static LetterLine Of(DeadLetter letter, bool withMessage = false)
    {
        bool isText = withMessage && Utf8.IsValid(letter.Message.Span);
        return new LetterLine(
            letter.LetterOffset, letter.Time, letter.Queue, letter.Consumer, letter.Attempts, letter.ErrorType, letter.Error,
            letter.StoreId, letter.Epoch, letter.Offset, letter.Message.Length, letter.MessageLength)
        {
            Text = isText ? Encoding.UTF8.GetString(letter.Message.Span) : null,
            Base64 = withMessage && !isText ? letter.Message.ToArray() : null,
        };
    }
}

/// <summary>The result of `list` and `show`.</summary>
internal sealed record LetterList(IReadOnlyList<LetterLine> Letters);
