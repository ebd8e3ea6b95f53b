namespace MappedFileQueues.Tool.Transfer;

/// <summary>Which messages of a store `mfq export` and `mfq replay` take.</summary>
internal sealed class SourceOptions : IOptionGroup
{
    private readonly Option<QueueStart?> _from = ToolOptions.Place(
        "--from", "Begin there instead of at the first message.", "start", "end");

    private readonly Option<bool> _skipDamage = ToolOptions.Flag(
        "--skip-damage", "Continue after damage, and tell it on standard error.");

    public void AddTo(Command command)
    {
        command.Add(_from);
        command.Add(_skipDamage);
    }

    public ConsumePlan Of(ParseResult parsed, string storePath) => new(storePath)
    {
        From = parsed.GetValue(_from),
        SkipsDamage = parsed.GetValue(_skipDamage),
    };
}
