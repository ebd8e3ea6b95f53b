using System.Globalization;

namespace MappedFileQueues.CrashLab.Soak;

/// <summary>What the processes of a soak agree on: the store, how fast each is, and the limits.</summary>
internal static class SoakPlan
{
    public const string ProducerVerb = "soak-producer";
    public const string ConsumerVerb = "soak-consumer";

    public const int ProducerCount = 2;

    /// <summary>Small, so that files are removed and used again several times a second.</summary>
    public const long SegmentLength = 4L << 20;

    public const long MaxBytes = 64L << 20;

    /// <summary>The slow consumer is dropped when it is further behind.</summary>
    public const long UnconsumedBytesMax = 128L << 20;

    /// <summary>What one producer appends in a second: so little that every consumer but the slow one keeps up.</summary>
    public const long BytesPerSecond = 12L << 20;

    /// <summary>What the slow consumer reads in a second: it falls behind, and is dropped every 16 s or so.</summary>
    public const long SlowBytesPerSecond = 16L << 20;

    public static readonly string[] Consumers = ["fast", "pausing", "slow"];

    public static RetentionOptions Policy { get; } = new() { MaxBytes = MaxBytes, UnconsumedBytesMax = UnconsumedBytesMax };

    public static MappedFileQueueOptions OptionsOf(string folder) => new()
    {
        StorePath = Path.Combine(folder, "store"),
        SegmentSize = SegmentLength,
        LockTimeout = TimeSpan.FromSeconds(30),
    };

    /// <summary>The producers end when this file is there.</summary>
    public static string StopFile(string folder) => Path.Combine(folder, "stop");

    /// <summary>Holds the offset at which the log ends, once it does; the consumers read up to it.</summary>
    public static string EndFile(string folder) => Path.Combine(folder, "end");

    public static long? ReadEnd(string folder) => File.Exists(EndFile(folder))
        ? long.Parse(File.ReadAllText(EndFile(folder)), CultureInfo.InvariantCulture)
        : null;
}
