namespace MappedFileQueues.Bench;

/// <summary>A group: figures that share options, output and JSON with the others.</summary>
/// <param name="Name">The subcommand.</param>
/// <param name="Description">What its help says.</param>
/// <param name="Groups">Its figures in the order of measuring; each is a role of the same name in a process of its own.</param>
/// <param name="WriteTables">What is printed after the figures when all of them were asked for; null for nothing.</param>
/// <param name="Messages">
/// What a repetition moves, in full and with --quick, in a suite that counts messages of 64 bytes; null in one that counts bytes.
/// </param>
internal sealed record BenchSuite(
    string Name,
    string Description,
    IReadOnlyList<BenchFigureGroup> Groups,
    Action<BenchRun>? WriteTables = null,
    (long Full, long Quick)? Messages = null)
{
    public IEnumerable<string> Names => Groups.SelectMany(group => group.Names);

    /// <summary>A group whose role bears the name of its first figure.</summary>
    public static BenchFigureGroup Group(params string[] names) => new(names, run => run.Measure(names[0], processCount: 1));
}
