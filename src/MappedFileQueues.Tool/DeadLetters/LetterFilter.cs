namespace MappedFileQueues.Tool.DeadLetters;

/// <summary>The options that choose letters; a letter must fit all that are given.</summary>
/// <param name="isRequired">The command changes something: without a filter it takes --all and nothing else.</param>
internal sealed class LetterFilter(bool isRequired) : IOptionGroup
{
    private readonly Option<long[]> _offsets = new("--offset")
    { Description = "The letter at this offset, which `mfq deadletters list` shows. May be repeated.", HelpName = "OFFSET" };

    private readonly Option<string?> _queue = new("--queue") { Description = "Letters of this queue.", HelpName = "NAME" };

    private readonly Option<string?> _consumer = ConsumerName.Option(
        "--consumer", $"Letters of this consumer; {ConsumerName.Help}.");

    private readonly Option<string?> _error = new("--error")
    { Description = "Letters whose error, or its type, contains this text.", HelpName = "TEXT" };

    private readonly Option<bool> _all = ToolOptions.Flag("--all", "Every letter that was not settled.");

    public void AddTo(Command command)
    {
        Option[] filters = [_offsets, _queue, _consumer, _error];
        foreach (Option option in isRequired ? [.. filters, _all] : filters)
            command.Add(option);
        if (!isRequired)
            return;
        command.Validators.Add(result =>
        {
            if (filters.Any(option => result.GetResult(option) is not null) == result.GetResult(_all) is not null)
                result.AddError("Give --all, or say which letters: --offset, --queue, --consumer, --error.");
        });
    }

    /// <summary>Whether a letter fits.</summary>
    public Func<DeadLetter, bool> Of(ParseResult parsed)
    {
        long[]? offsets = parsed.GetValue(_offsets) is { Length: > 0 } given ? given : null;
        (string? queue, string? consumer, string? error) =
            (parsed.GetValue(_queue), parsed.GetValue(_consumer), parsed.GetValue(_error));
        return letter => (offsets is null || offsets.Contains(letter.LetterOffset))
            && (queue is null || queue.Equals(letter.Queue, StringComparison.OrdinalIgnoreCase))
            && (consumer is null || consumer.Equals(letter.Consumer, StringComparison.OrdinalIgnoreCase))
            && (error is null || $"{letter.ErrorType}: {letter.Error}"
                .Contains(error, StringComparison.OrdinalIgnoreCase));
    }
}
