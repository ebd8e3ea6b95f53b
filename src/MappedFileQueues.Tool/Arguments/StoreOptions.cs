using System.CommandLine;

namespace MappedFileQueues.Tool.Arguments;

/// <summary>The options of commands that open a store for writing.</summary>
internal static class StoreOptions
{
    public static Option<TimeSpan?> LockTimeout() => ToolOptions.Duration(
        "--lock-timeout", "How long to wait for a lock of another program: a consumer's name, the producers' lock; default 0.");

    public static Option<bool> AllowFileSystem() => ToolOptions.Flag(
        "--dangerously-allow-file-system",
        "Use a store on a network or FUSE file system, whose locks and mappings are not dependable between machines.");
}
