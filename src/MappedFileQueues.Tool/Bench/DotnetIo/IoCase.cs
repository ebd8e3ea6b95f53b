namespace MappedFileQueues.Tool.Bench.DotnetIo;

/// <summary>One way of doing what a table is about.</summary>
/// <param name="Api">The class or method.</param>
/// <param name="Detail">Its options, and the caller's buffer.</param>
/// <param name="Run">Does it once.</param>
internal sealed record IoCase(string Api, string Detail, Action Run)
{
    public string Title => Detail.Length == 0 ? Api : $"{Api}, {Detail}";
}

/// <summary>A table: one job, done in every way that .NET offers and in ours.</summary>
/// <param name="Name">How `--only` and the JSON call it.</param>
/// <param name="Title">What is done.</param>
/// <param name="Cases">The ways, over these files.</param>
/// <param name="Operations">
/// How many times a way is done in one measurement, whose mean counts in microseconds; 0 for jobs that move the whole file, which
/// count in MB/s.
/// </param>
internal sealed record IoTable(string Name, string Title, Func<IoFiles, IReadOnlyList<IoCase>> Cases, int Operations = 0)
{
    public const string RolePrefix = "dotnet_io_";

    public string Role => RolePrefix + Name;

    public string Unit => Operations > 0 ? "us" : "MB/s";
}
