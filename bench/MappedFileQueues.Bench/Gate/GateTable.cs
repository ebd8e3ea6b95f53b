namespace MappedFileQueues.Bench.Gate;

/// <summary>One row of the gate.</summary>
/// <param name="Name">The figure.</param>
/// <param name="Ratio">The smallest time of the queue divided by that of the raw loop.</param>
/// <param name="Reason">Where the ratio comes from.</param>
/// <param name="ClaimsRaw">The raw loop claims and publishes by a locked instruction each, as the queue does.</param>
internal sealed record GateRow(string Name, double Ratio, string Reason, bool ClaimsRaw = false)
{
    /// <summary>What is added to a figure's name for the role that measures it beside such a raw loop.</summary>
    public const string ClaimsSuffix = "_claims";

    /// <summary>The role that measures it.</summary>
    public string Role => ClaimsRaw ? Name + ClaimsSuffix : Name;
}

/// <summary>
/// What the hot path may cost. A change that makes a row slower has to change it here, with the reason; one that makes a row
/// faster lowers it. Reading beside a bare loop depends on the machine: the raw loop takes 2.5 ns where memory is fast and 4.5
/// where it is slow, the checksum takes as long on both. The rows of reading hold the larger ratio. A locked instruction takes
/// 2 ns on one machine and 6.5 on another, a bare copy 9 and 6: so the raw loops of Shared rows have the two as well. Round trips
/// are not here: their ratio was 1.04 on one machine and 2 on another with the same code.
/// </summary>
internal static class GateTable
{
    /// <summary>A row fails when its ratio is larger than the table's by more than this share.</summary>
    public const double Tolerance = 0.15;

    public static IReadOnlyList<GateRow> Rows { get; } =
    [
        new("append_exclusive", 0.90, "a copy by words does not wait for the number that was just stored, as the raw copy does"),
        new("append_batch", 1.35, "one claim for 64 messages; the loop over them takes 8.4 or 11.6 ns, from build to build"),
        new("append_shared", 1.45, "the checksum, and finding the thread's own lane", ClaimsRaw: true),
        new("read_verify", 3.10, "the checksum, two marked calls, the cursor; 2.3 where a bare read takes 4 ns"),
        new("read_batch", 2.80, "the checksum and a copy; two speeds, as append_batch has"),
        new("messages_append", 1.45, "as append_shared, with a length that is no constant", ClaimsRaw: true),
        new("messages_read", 4.00, "as read_verify, and the question which thread has the span"),
    ];
}
