namespace MappedFileQueues.Bench.DotnetIo;

/// <summary>One way of doing what a table is about.</summary>
/// <param name="Api">The class or method.</param>
/// <param name="Detail">Its options, and the caller's buffer.</param>
/// <param name="Run">Does it once.</param>
/// <param name="Check">Outside of the time: whether what was written is there; null where the table checks it.</param>
internal sealed record IoCase(string Api, string Detail, Action Run, Action? Check = null)
{
    public string Title => Detail.Length == 0 ? Api : $"{Api}, {Detail}";
}

/// <summary>The ways of a table, and what is missing on this machine.</summary>
internal sealed class IoCases : List<IoCase>
{
    /// <summary>Which ways were left out, and why: a sentence each.</summary>
    public List<string> Notes { get; } = [];
}

/// <summary>A table: one job, done in every way that .NET offers and in ours.</summary>
/// <param name="Name">How `--only` and the JSON call it.</param>
/// <param name="Title">What is done.</param>
/// <param name="Cases">The ways, over these files.</param>
/// <param name="Operations">
/// How many times a way is done in one measurement, whose mean counts in microseconds; 0 for jobs that move the whole file, which
/// count in MB/s.
/// </param>
internal sealed record IoTable(string Name, string Title, Func<IoFiles, IoCases> Cases, int Operations = 0)
{
    public const string RolePrefix = "dotnet_io_";

    public string Role => RolePrefix + Name;

    public string Unit => Operations > 0 ? "us" : "MB/s";

    /// <summary>Looks at what a way has left, outside of the time.</summary>
    public Action<IoFiles>? Check { get; init; }

    /// <summary>The disk is asked inside the time: code that is not fully compiled yet makes no difference then.</summary>
    public bool IsFlushed { get; init; }

    /// <summary>Options of mkfs.ext4 for an image that is mounted for the table; null for the run's own directory.</summary>
    public string[]? ImageOptions { get; init; }
}
