using MappedFileQueues.Engine;

namespace MappedFileQueues.Tool.Arguments;

/// <summary>The options of commands that open a store for writing, and what they tell the library.</summary>
/// <param name="lockHelp">What is waited for; null for a command that has no --lock-timeout.</param>
internal sealed class StoreOptions(string? lockHelp = StoreOptions.LockHelp) : IOptionGroup
{
    private const string LockHelp =
        "How long to wait for a lock of another program: a consumer's name, the producers' lock; default 0.";

    private readonly Option<TimeSpan?>? _lockTimeout =
        lockHelp is null ? null : ToolOptions.Duration("--lock-timeout", lockHelp);

    private readonly Option<bool> _allowFileSystem = AllowFileSystem();

    public static Option<bool> AllowFileSystem() => ToolOptions.Flag(
        "--dangerously-allow-file-system",
        "Use a store on a network or FUSE file system, whose locks and mappings are not dependable between machines.");

    public void AddTo(Command command)
    {
        if (_lockTimeout is not null)
            command.Add(_lockTimeout);
        command.Add(_allowFileSystem);
    }

    public MappedFileQueueOptions Of(ParseResult parsed, string storePath) => new()
    {
        StorePath = storePath,
        LockTimeout = _lockTimeout is null ? TimeSpan.Zero : parsed.GetValue(_lockTimeout) ?? TimeSpan.Zero,
        DangerouslyAllowFileSystem = parsed.GetValue(_allowFileSystem),
    };

    /// <summary>Attaches to the store that an argument names.</summary>
    public StoreEngine Open(ParseResult parsed, Argument<string> store) =>
        AttachedStore.Open(Of(parsed, parsed.GetRequiredValue(store)));
}
