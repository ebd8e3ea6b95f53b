namespace MappedFileQueues.CrashLab.Sim;

/// <summary>Which calls of the platform fail, and how.</summary>
internal sealed class SimFaults
{
    /// <summary>Pages that may still get a block; the disk is full when none is left.</summary>
    public int BlocksLeft { get; set; } = int.MaxValue;

    /// <summary>Asked for each sync of a file, with its name: true makes the device fail for its dirty pages.</summary>
    public Func<string, bool>? FailsSync { get; set; }

    /// <summary>Asked for each sync of a folder.</summary>
    public Func<string, bool>? FailsFolderSync { get; set; }

    /// <summary>Asked for each open and lock: true is "too many open files".</summary>
    public Func<string, bool>? FailsOpen { get; set; }

    /// <summary>Asked for each write by position.</summary>
    public Func<string, bool>? FailsWrite { get; set; }
}
