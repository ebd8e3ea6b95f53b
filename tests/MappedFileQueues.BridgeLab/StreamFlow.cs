using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Demo.Brokers;

namespace MappedFileQueues.BridgeLab;

/// <summary>
/// Watches that messages arrive, and repairs what no client can. The coordinator of RabbitMQ's streams writes down which process
/// leads a stream. When its own leader dies at that moment, it waits for the end of that writing for ever (3.10.8; issue 6179 of
/// rabbitmq-server, mended in its pull request 6216). After the next change of the stream's leader, each channel then publishes
/// to a process that is gone: its first message arrives, and no other one. A laboratory that continues killing shows nothing
/// then: it did so once for 91 minutes, after the third leader.
/// </summary>
internal sealed class StreamFlow(IReadOnlyList<BrokerNode> nodes, string farStore)
{
    /// <summary>Longer than any back-off, and than any pause of a process that continues.</summary>
    private static readonly TimeSpan s_repairInterval = TimeSpan.FromSeconds(40);

    /// <summary>
    /// Whoever has brought nothing for so long never will. Where a majority of the brokers dies every 15 s, nothing may come for
    /// 166 s, and then all of it.
    /// </summary>
    private static readonly TimeSpan s_hopeless = TimeSpan.FromMinutes(6);

    private static readonly TimeSpan s_repairPatience = TimeSpan.FromSeconds(30);

    /// <summary>
    /// Tells the coordinator that such a writing has ended, so that it begins the next one; says how many there were.
    /// </summary>
    private const string Repair =
        "C = {rabbit_stream_coordinator, node()}, "
        + "{ok, {_, S}, _} = ra:local_query(C, fun(X) -> X end), "
        + "length([ra:process_command(C, {mnesia_updated, Id, #{epoch => 0}}) "
        + "|| {Id, Stream} <- maps:to_list(element(2, S)), {updating, _} <- tuple_to_list(Stream)]).";

    private long _published = -1;
    private long _progressTime = Stopwatch.GetTimestamp();
    private long _repairTime = Stopwatch.GetTimestamp();

    /// <summary>How often the coordinator waited for ever.</summary>
    public int Repairs { get; private set; }

    /// <summary>Looks; false if nothing has arrived for minutes, whatever was done.</summary>
    public async Task<bool> LookAsync()
    {
        if (Published() is { } published && published != _published)
        {
            _published = published;
            _progressTime = _repairTime = Stopwatch.GetTimestamp();
        }

        if (Stopwatch.GetElapsedTime(_repairTime) > s_repairInterval && nodes.All(node => node.IsRunning))
        {
            int repaired = await RepairAsync(nodes[Random.Shared.Next(nodes.Count)]);
            Repairs += repaired;
            Console.WriteLine(
                $"{DateTime.UtcNow:HH:mm:ss.fff} nothing has come for "
                + $"{Stopwatch.GetElapsedTime(_progressTime).TotalSeconds:N0} s; streams repaired: {repaired}");
            _repairTime = Stopwatch.GetTimestamp();
        }

        return Stopwatch.GetElapsedTime(_progressTime) < s_hopeless;
    }

    private long? Published()
    {
        try
        {
            return StoreInspector.Inspect(farStore).PublishedOffset;
        }
        catch (MappedFileQueueException)
        {
            // It is not there yet, or the disk is full.
            return null;
        }
    }

    private static async Task<int> RepairAsync(BrokerNode node)
    {
        using Process control = node.StartEvaluation(Repair);
        using CancellationTokenSource limit = new(s_repairPatience);
        try
        {
            Task<string> complaint = control.StandardError.ReadToEndAsync(limit.Token);
            string said = await control.StandardOutput.ReadToEndAsync(limit.Token);
            if (int.TryParse(said.Trim(), CultureInfo.InvariantCulture, out int count))
                return count;
            Console.WriteLine($"{node.Name} could not be asked. {said} {await complaint}");
            return 0;
        }
        catch (OperationCanceledException)
        {
            // A node that stands still; the next look tries again.
            control.Kill(entireProcessTree: true);
            return 0;
        }
    }
}
