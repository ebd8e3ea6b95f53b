namespace MappedFileQueues.Demo;

/// <summary>A process that the demo killed.</summary>
/// <param name="At">The time since the demo began.</param>
/// <param name="Role">The role of the process: producer or consumer.</param>
/// <param name="ProcessId">Its process id.</param>
/// <param name="What">What it was doing.</param>
/// <param name="Messages">How many messages were published (producer) or committed (consumer) when it died.</param>
/// <param name="Unread">How many published messages the consumer had not committed then.</param>
/// <param name="Successor">The process that continued from there.</param>
internal sealed record DemoDeath(
    TimeSpan At, string Role, int ProcessId, string What, long Messages, long Unread, int Successor);

/// <summary>A burst, and whether a process was killed or stopped in it.</summary>
/// <param name="From">Its start.</param>
/// <param name="To">Its end.</param>
/// <param name="IsDisturbed">True if its speed means nothing, because a process was killed in it.</param>
internal readonly record struct DemoBurst(DemoProgress From, DemoProgress To, bool IsDisturbed)
{
    /// <summary>The messages and bytes sent in it.</summary>
    public DemoProgress Content => new(To.Messages - From.Messages, To.Bytes - From.Bytes);
}

/// <summary>The results of a demo run.</summary>
internal sealed class DemoResult
{
    /// <summary>What the producing side reports as sent.</summary>
    public required DemoProgress Sent { get; init; }

    /// <summary>The SHA-256 of what went in.</summary>
    public required string SentDigest { get; init; }

    /// <summary>What the consuming side reports as received.</summary>
    public required DemoProgress Received { get; init; }

    /// <summary>The SHA-256 of what came out.</summary>
    public required string ReceivedDigest { get; init; }

    /// <summary>The killed processes, in order.</summary>
    public required IReadOnlyList<DemoDeath> Deaths { get; init; }

    /// <summary>The bursts, in order.</summary>
    public required IReadOnlyList<DemoBurst> Bursts { get; init; }

    /// <summary>The part that was sent at an even pace, for the latency.</summary>
    public required DemoBurst Steady { get; init; }

    /// <summary>From the first message on its way to the last one written out.</summary>
    public required TimeSpan Duration { get; init; }

    /// <summary>False if the time was up before all of the input was sent.</summary>
    public required bool IsWhole { get; init; }

    /// <summary>True if what came out is what went in.</summary>
    public bool IsRight => Sent == Received && SentDigest == ReceivedDigest;
}
