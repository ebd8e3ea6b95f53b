using System.Collections.Concurrent;
using System.Diagnostics.Metrics;

namespace MappedFileQueues.RabbitMQ.Diagnostics;

/// <summary>The figures of all bridges of the process, under the meter <c>MappedFileQueues.RabbitMQ</c>.</summary>
internal static class BridgeMeter
{
    public const string Name = "MappedFileQueues.RabbitMQ";

    private static readonly Meter s_meter = new(Name);
    private static readonly ConcurrentDictionary<BridgeLoop, byte> s_running = new();

    private static readonly Counter<long> s_messages = s_meter.CreateCounter<long>(
        "mfq.bridge.messages", "{message}", "Messages moved and confirmed.");

    private static readonly Counter<long> s_bytes = s_meter.CreateCounter<long>("mfq.bridge.bytes", "By", "Their bytes.");

    private static readonly Counter<long> s_failures = s_meter.CreateCounter<long>(
        "mfq.bridge.failures", "{attempt}", "Attempts that ended with an error.");

    private static readonly Counter<long> s_deadLetters = s_meter.CreateCounter<long>(
        "mfq.bridge.dead_letters", "{message}", "Messages that went to the dead letters.");

    private static readonly ObservableGauge<long> s_lag = s_meter.CreateObservableGauge(
        "mfq.bridge.lag", () => s_running.Keys.Select(loop => new Measurement<long>(loop.GetStatus().LagBytes, loop.Tags)), "By",
        "Bytes of the store that the broker has not confirmed.");

    private static readonly ObservableGauge<int> s_state = s_meter.CreateObservableGauge(
        "mfq.bridge.running",
        () => s_running.Keys.Select(
            loop => new Measurement<int>(loop.GetStatus().State == BridgeState.Running ? 1 : 0, loop.Tags)),
        description: "1 while the bridge moves messages.");

    public static void Add(BridgeLoop loop) => s_running[loop] = 0;

    public static void Remove(BridgeLoop loop) => s_running.TryRemove(loop, out _);

    public static void Moved(BridgeLoop loop, long messages, long bytes)
    {
        s_messages.Add(messages, loop.Tags);
        s_bytes.Add(bytes, loop.Tags);
    }

    public static void Failed(BridgeLoop loop) => s_failures.Add(1, loop.Tags);

    public static void DeadLetter(BridgeLoop loop) => s_deadLetters.Add(1, loop.Tags);
}
