namespace MappedFileQueues.Tool.Demo;

/// <summary>A process that the demo killed.</summary>
/// <param name="At">When, since the demo began.</param>
/// <param name="Role">What it did: producer or consumer.</param>
/// <param name="ProcessId">Its process id.</param>
/// <param name="What">What it was in the middle of.</param>
/// <param name="Messages">How many messages were published (producer) or committed (consumer) when it died.</param>
/// <param name="Unread">How many published messages the consumer had not committed then.</param>
/// <param name="Successor">The process that went on from there.</param>
internal sealed record DemoDeath(
    TimeSpan At, string Role, int ProcessId, string What, long Messages, long Unread, int Successor);

/// <summary>A burst, and whether anyone was killed or stopped in it.</summary>
/// <param name="From">Where it began.</param>
/// <param name="To">Where it ended.</param>
/// <param name="IsDisturbed">True when its speed says nothing, because somebody was killed in it.</param>
internal readonly record struct DemoBurst(DemoProgress From, DemoProgress To, bool IsDisturbed)
{
    /// <summary>What was sent in it.</summary>
    public DemoProgress Content => new(To.Messages - From.Messages, To.Bytes - From.Bytes);
}

/// <summary>All that a demo run has found out.</summary>
internal sealed class DemoResult
{
    /// <summary>What the producing side says went in.</summary>
    public required DemoProgress Sent { get; init; }

    /// <summary>The SHA-256 of what went in.</summary>
    public required string SentDigest { get; init; }

    /// <summary>What the consuming side says came out.</summary>
    public required DemoProgress Received { get; init; }

    /// <summary>The SHA-256 of what came out.</summary>
    public required string ReceivedDigest { get; init; }

    /// <summary>Who died, in order.</summary>
    public required IReadOnlyList<DemoDeath> Deaths { get; init; }

    /// <summary>The bursts, in order.</summary>
    public required IReadOnlyList<DemoBurst> Bursts { get; init; }

    /// <summary>The part that was sent at an even pace, for the latency.</summary>
    public required DemoBurst Steady { get; init; }

    /// <summary>From the first message on its way to the last one written out.</summary>
    public required TimeSpan Duration { get; init; }

    /// <summary>False when the time was up before all of the input was sent.</summary>
    public required bool IsWhole { get; init; }

    /// <summary>Whether what came out is what went in.</summary>
    public bool IsRight => Sent == Received && SentDigest == ReceivedDigest;
}
