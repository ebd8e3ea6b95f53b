using System.CommandLine;
using System.Globalization;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Consume;
using MappedFileQueues.Tool.Consumers;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.DeadLetters;

/// <summary>`mfq deadletters show`: one letter with its message.</summary>
internal static class ShowCommand
{
    public static Command Create()
    {
        Argument<string> letters = DeadLettersCommand.LettersArgument();
        Argument<long> offset = new("OFFSET") { Description = "The letter, as `mfq deadletters list` shows it." };
        FormatOptions format = new();
        Command command = new(
            "show", "Show one letter with its whole error and its message: `mfq deadletters show orders-dead-letters 4096`.")
        {
            letters, offset,
        };
        format.AddTo(command);
        command.SetAction(parsed =>
        {
            string path = parsed.GetRequiredValue(letters);
            long at = parsed.GetRequiredValue(offset);
            Letter letter = LetterStore.Read(path).FirstOrDefault(letter => letter.Offset == at)
                ?? throw new ToolException($"No letter that was not settled lies there: offset={at}, "
                    + $"path={Path.GetFullPath(path)}. `mfq deadletters list` shows those that there are.");
            if (OutputOption.IsJson(parsed))
                OutputOption.WriteJson(
                    new LetterList([LetterLine.Of(letter, withMessage: true)]), LettersJsonContext.Default.LetterList);
            else
                Print(letter, format.Of(parsed, path));
            return ExitCodes.Success;
        });
        return command;
    }

    private static void Print(Letter letter, MessageFormat format)
    {
        Hosting.DeadLetter content = letter.Content;
        Report report = new("Dead letter", "", "");
        report.Add("offset", $"{letter.Offset}");
        report.Add("time", content.Time.ToString("u", CultureInfo.InvariantCulture));
        report.Add("queue", content.Queue);
        report.Add("consumer", ConsumerName.Show(content.Consumer));
        report.Add("attempts", $"{content.Attempts}");
        report.Add("error", content.ErrorType);
        report.Add("", content.Error.ReplaceLineEndings(" "));
        report.Add("message", $"offset {content.Offset}, epoch {content.Epoch}, store {content.StoreId}");
        report.Write();
        ToolConsole.Out.Flush();
        using Stream output = StandardOutput.Open();
        using MessageWriter writer = new(output, format);
        writer.Write(content.Message.Span, content.Offset);
        output.Flush();
    }
}
