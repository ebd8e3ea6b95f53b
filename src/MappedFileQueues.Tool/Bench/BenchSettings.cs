namespace MappedFileQueues.Tool.Bench;

/// <summary>What a run was asked for.</summary>
/// <param name="IsQuick">Few messages and repetitions: under 40 s with two CPUs.</param>
/// <param name="Messages">Messages in each repetition.</param>
/// <param name="Directory">Where the run makes, and removes, its own directory.</param>
internal sealed record BenchSettings(bool IsQuick, long Messages, string Directory)
{
    public const long MessagesDefault = 10_000_000;
    public const long MessagesDefaultQuick = 1_000_000;

    /// <summary>A raw file and a store of this many stay below 6 GB together.</summary>
    public const long MessagesMax = 40_000_000;

    public const long MessagesMin = 1_000;

    public int Repetitions => IsQuick ? 3 : 5;
}
