using System.Globalization;

namespace MappedFileQueues.Bench;

/// <summary>What a run was asked for.</summary>
/// <param name="IsQuick">Few messages and repetitions: under 40 s with two CPUs.</param>
/// <param name="Messages">Messages in each repetition.</param>
/// <param name="Directory">Where the run makes, and removes, its own directory.</param>
/// <param name="Bytes">What each repetition of a figure about files moves; 0 in a run about queues.</param>
internal sealed record BenchSettings(bool IsQuick, long Messages, string Directory, long Bytes = 0)
{
    public const long BytesDefault = 1L << 30;
    public const long BytesDefaultQuick = 128L << 20;
    public const long BytesMax = 16L << 30;
    public const long BytesMin = 64 << 10;

    public const long MessagesDefault = 10_000_000;
    public const long MessagesDefaultQuick = 1_000_000;

    /// <summary>A raw file and a store of this many stay below 6 GB together.</summary>
    public const long MessagesMax = 40_000_000;

    public const long MessagesMin = 1_000;

    public const int RepetitionsMax = 100;

    /// <summary>How often each figure is measured.</summary>
    public int Repetitions { get; init; } = IsQuick ? 3 : 5;

    /// <summary>Whether the code is compiled to the end before it is measured.</summary>
    public bool WarmsUp { get; init; } = true;

    /// <summary>Whether files are measured as a first try finds them.</summary>
    public bool IsCold { get; init; }

    /// <summary>Whether raw loops take turns with the queue.</summary>
    public bool HasRaw { get; init; } = true;

    /// <summary>What a repetition is, for the head of the output.</summary>
    public string Work => Bytes > 0
        ? string.Create(
            CultureInfo.InvariantCulture,
            $"{Bytes / (double)(1 << 20):0.##} MiB, {Repetitions} repetitions, peer and ours in turn")
        : HasRaw
        ? string.Create(
            CultureInfo.InvariantCulture,
            $"{Messages:N0} messages of 64 bytes, {Repetitions} repetitions, raw and queue in turn")
        : string.Create(CultureInfo.InvariantCulture, $"{Messages:N0} messages, {Repetitions} repetitions");
}
