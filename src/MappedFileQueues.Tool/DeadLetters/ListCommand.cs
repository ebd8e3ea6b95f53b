using System.CommandLine;
using System.Globalization;
using System.Text;
using System.Text.Json.Serialization;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Consumers;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.DeadLetters;

/// <summary>`mfq deadletters list`: the letters that nobody has settled.</summary>
internal static class ListCommand
{
    private const int ErrorLengthMax = 80;

    public static Command Create()
    {
        Argument<string> letters = DeadLettersCommand.LettersArgument();
        LetterFilter filter = new();
        Command command = new(
            "list", "Show the letters that were not settled, the oldest first: `mfq deadletters list orders-dead-letters`.")
        {
            letters,
        };
        filter.AddTo(command, isRequired: false);
        command.SetAction(parsed =>
        {
            Predicate<Letter> fits = filter.Of(parsed);
            IEnumerable<LetterLine> found = LetterStore.Read(parsed.GetRequiredValue(letters))
                .Where(letter => fits(letter)).Select(letter => LetterLine.Of(letter));
            if (OutputOption.IsJson(parsed))
                OutputOption.WriteJson(new LetterList([.. found]), LettersJsonContext.Default.LetterList);
            else
                Print(found);
            return ExitCodes.Success;
        });
        return command;
    }

    private static void Print(IEnumerable<LetterLine> letters)
    {
        Report report = new("Dead letters", "offset", "time", "queue", "consumer", "attempts", "bytes", "error");
        foreach (LetterLine letter in letters)
        {
            string error = $"{letter.ErrorType}: {letter.Error}".ReplaceLineEndings(" ");
            report.Add(
                $"{letter.Offset}",
                letter.Time.ToString("u", CultureInfo.InvariantCulture),
                letter.Queue,
                ConsumerName.Show(letter.Consumer),
                $"{letter.Attempts}",
                letter.Length < letter.MessageLength
                    ? $"{Report.Number(letter.Length)} of {Report.Number(letter.MessageLength)}"
                    : Report.Number(letter.Length),
                error.Length <= ErrorLengthMax ? error : $"{error[..ErrorLengthMax]}…");
        }

        if (report.RowCount > 0)
            report.Write();
        OutputLine.Write($"{Report.Count(report.RowCount, "letter")}.");
    }
}

/// <summary>A letter for programs.</summary>
/// <param name="Offset">Where it lies in the store of the letters: its name in all commands.</param>
/// <param name="Time">When the last attempt had failed.</param>
/// <param name="Queue">The queue's name in the application.</param>
/// <param name="Consumer">The consumer.</param>
/// <param name="Attempts">The number of attempts.</param>
/// <param name="ErrorType">The type of the last error.</param>
/// <param name="Error">Its text.</param>
/// <param name="StoreId">The store that the message lay in.</param>
/// <param name="Epoch">That store's epoch.</param>
/// <param name="MessageOffset">The message's offset there.</param>
/// <param name="Length">The length of the message in the letter.</param>
/// <param name="MessageLength">The message's length; more than the letter has where it had no room for all.</param>
internal sealed record LetterLine(
    long Offset, DateTimeOffset Time, string Queue, string Consumer, int Attempts, string ErrorType, string Error,
    Guid StoreId, long Epoch, long MessageOffset, int Length, int MessageLength)
{
    /// <summary>The message, for `show`, when it is UTF-8.</summary>
    [JsonIgnore(Condition = JsonIgnoreCondition.WhenWritingNull)]
    public string? Text { get; init; }

    /// <summary>The message, for `show`, when it is not.</summary>
    [JsonIgnore(Condition = JsonIgnoreCondition.WhenWritingNull)]
    public byte[]? Base64 { get; init; }

    public static LetterLine Of(Letter letter, bool withMessage = false)
    {
        var content = letter.Content;
        bool isText = withMessage && System.Text.Unicode.Utf8.IsValid(content.Message.Span);
        return new LetterLine(letter.Offset, content.Time, content.Queue, content.Consumer, content.Attempts, content.ErrorType,
            content.Error, content.StoreId, content.Epoch, content.Offset, content.Message.Length, content.MessageLength)
        {
            Text = isText ? Encoding.UTF8.GetString(content.Message.Span) : null,
            Base64 = withMessage && !isText ? content.Message.ToArray() : null,
        };
    }
}

/// <summary>The result of `list` and `show`.</summary>
/// <param name="Letters">The letters, the oldest first.</param>
internal sealed record LetterList(IReadOnlyList<LetterLine> Letters);

/// <summary>The JSON of `mfq deadletters`.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase, WriteIndented = true)]
[JsonSerializable(typeof(LetterList))]
[JsonSerializable(typeof(SettleResult))]
internal sealed partial class LettersJsonContext : JsonSerializerContext;
