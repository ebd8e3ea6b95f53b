using System.Text.Json.Serialization;

namespace MappedFileQueues.Tool.Demo;

/// <summary>A demo run in the form of `--output json`. Times in seconds, latencies in microseconds.</summary>
internal sealed record DemoSummary
{
    /// <summary>True if what came out is what went in.</summary>
    public required bool IsRight { get; init; }

    /// <summary>True if all of the input was sent before the time was up.</summary>
    public required bool IsWhole { get; init; }

    /// <summary>What went in.</summary>
    public required DemoProgress Sent { get; init; }

    /// <summary>What came out.</summary>
    public required DemoProgress Received { get; init; }

    /// <summary>SHA-256 of what went in.</summary>
    public required string SentDigest { get; init; }

    /// <summary>SHA-256 of what came out.</summary>
    public required string ReceivedDigest { get; init; }

    /// <summary>From the first message on its way to the last one written out.</summary>
    public required double Seconds { get; init; }

    /// <summary>The median latency of messages at an even pace, from before the append to after the read.</summary>
    public required double LatencyMedian { get; init; }

    /// <summary>The same for 99 of 100 messages.</summary>
    public required double LatencyP99 { get; init; }

    /// <summary>The killed processes, in order.</summary>
    public required IReadOnlyList<DemoDeathSummary> Deaths { get; init; }

    /// <summary>The store, if it is kept; null if it was removed.</summary>
    public string? StorePath { get; init; }

    /// <summary>The output, if it is kept; null if it was removed.</summary>
    public string? OutputPath { get; init; }

    /// <summary>The summary of a finished run.</summary>
    public static DemoSummary Of(DemoResult result, DemoFolder folder, bool isKept)
    {
        LatencySample even = new DemoFigures(folder).Latencies([result.Steady]);
        return new DemoSummary
        {
            IsRight = result.IsRight,
            IsWhole = result.IsWhole,
            Sent = result.Sent,
            Received = result.Received,
            SentDigest = result.SentDigest,
            ReceivedDigest = result.ReceivedDigest,
            Seconds = result.Duration.TotalSeconds,
            LatencyMedian = even.Percentile(0.5).TotalMicroseconds,
            LatencyP99 = even.Percentile(0.99).TotalMicroseconds,
            Deaths =
            [
                .. result.Deaths.Select(death => new DemoDeathSummary(
                    death.At.TotalSeconds, death.Role, death.ProcessId, death.What, death.Messages, death.Successor)),
            ],
            StorePath = isKept ? folder.StorePath : null,
            OutputPath = isKept ? folder.OutputPath : null,
        };
    }
}

/// <summary>A process that was killed.</summary>
/// <param name="At">The time in seconds since the demo began.</param>
/// <param name="Role">The role of the process: producer or consumer.</param>
/// <param name="ProcessId">Its process id.</param>
/// <param name="What">What it was doing.</param>
/// <param name="Messages">How many messages were published (producer) or committed (consumer) when it died.</param>
/// <param name="Successor">The process that continued from there.</param>
internal sealed record DemoDeathSummary(double At, string Role, int ProcessId, string What, long Messages, int Successor);

/// <summary>The JSON of `mfq demo`.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase, WriteIndented = true)]
[JsonSerializable(typeof(DemoSummary))]
internal sealed partial class DemoJsonContext : JsonSerializerContext;
