using System.CommandLine;
using System.Globalization;
using System.Text.Json.Serialization;
using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Fence;

/// <summary>
/// `mfq fence`: takes away the claims of a producer that stands still, so that readers go on. The library never does that by
/// itself, because nothing tells a process that stands still from one that is about to publish.
/// </summary>
internal static class FenceCommand
{
    private static readonly TimeSpan s_afterDefault = TimeSpan.FromSeconds(1);

    public static Command Create()
    {
        Argument<string> store = ToolOptions.PathArgument("STORE", "The store's directory; it is never created.");
        Argument<int> slot = new("SLOT") { Description = "The slot of the claim, which `mfq info` shows." };
        slot.Validators.Add(result =>
        {
            if (result.Tokens is [{ Value: { } text }] && int.TryParse(text, out int number)
                && number is < 0 or >= SlotLayout.SlotCount)
                result.AddError($"SLOT is a number from 0 to {SlotLayout.SlotCount - 1}, not {number}.");
        });
        Option<TimeSpan?> after = ToolOptions.Wait(
            "--after", "Take away only claims that stand unchanged for this long; default 1s.");
        Option<bool> allowFileSystem = StoreOptions.AllowFileSystem();
        Command command = new(
            "fence",
            "Take away the claims of a producer that stands still (stopped, frozen, in a debugger), so that readers go on: "
                + "`mfq fence orders 3`. Its messages there are lost. When it goes on, the call that made the claim fails, and "
                + "the next one succeeds.")
        {
            store, slot, after, allowFileSystem,
        };
        command.SetAction(parsed =>
        {
            using Interruption interruption = new();
            using QueueCore queue = AttachedStore.Open(new MappedFileQueueOptions
            {
                StorePath = parsed.GetRequiredValue(store),
                DangerouslyAllowFileSystem = parsed.GetValue(allowFileSystem),
            });
            IReadOnlyList<MappedFileClaimInfo>? fenced = Fence(
                queue, parsed.GetRequiredValue(slot), parsed.GetValue(after) ?? s_afterDefault, interruption.Token);
            if (fenced is null)
                return interruption.ExitCode;
            if (OutputOption.IsJson(parsed))
                OutputOption.WriteJson(new FenceResult(fenced), FenceJsonContext.Default.FenceResult);
            else
                Print(fenced);
            return ExitCodes.Success;
        });
        return command;
    }

    /// <summary>Fences what stands; null when a signal came first, and then nothing was changed.</summary>
    private static List<MappedFileClaimInfo>? Fence(QueueCore queue, int slot, TimeSpan after, CancellationToken stopped)
    {
        MappedFileQueueInfo info = queue.GetInfo();
        MappedFileClaimInfo[] before = [.. info.OpenClaims.Where(claim => claim.Slot == slot)];
        if (before.Length == 0)
            throw Nothing(queue, info, slot);
        ErrorLine.Write(
            $"Slot {slot} has {Report.Count(before.Length, "open claim")}, the first at offset {before[0].Offset}, "
                + $"of pid {before[0].ProcessId}; waiting "
                + $"{after.TotalSeconds.ToString(CultureInfo.InvariantCulture)} s to see whether it goes on.",
            ExitCodes.Success);
        if (stopped.WaitHandle.WaitOne(after))
            return null;
        HashSet<long> still = [.. queue.GetInfo().OpenClaims.Where(claim => claim.Slot == slot).Select(claim => claim.Offset)];
        List<MappedFileClaimInfo> fenced = [];
        foreach (MappedFileClaimInfo claim in before.Where(claim => still.Contains(claim.Offset)))
        {
            if (queue.TryFence(claim.Offset, slot))
                fenced.Add(claim);
        }

        return fenced.Count > 0 ? fenced : throw new ToolException(
            $"The producer goes on by itself: slot={slot}, pid={before[0].ProcessId}. Nothing was fenced.");
    }

    private static ToolException Nothing(QueueCore queue, MappedFileQueueInfo info, int slot)
    {
        string place = $"slot={slot}, path={info.StorePath}";
        using PlatformLock? probe = queue.Store.Directory.Probe(StoreNames.ProducersLock);
        if (probe is null)
        {
            return new ToolException(
                $"An Exclusive producer has the store, and it makes no claims: {place}, "
                + $"pid={string.Join(",", info.ProducerProcesses)}. Let it go on, or end it.");
        }

        string others = info.OpenClaims.Count == 0
            ? "No claim is open."
            : $"Claims are open of slot {string.Join(", ", info.OpenClaims.Select(claim => claim.Slot).Distinct())}.";
        return new ToolException($"The slot has no open claim: {place}. {others}");
    }

    private static void Print(IReadOnlyList<MappedFileClaimInfo> fenced)
    {
        Report report = new("Fenced claims; what they were to hold is lost", "offset", "length", "slot", "pid");
        foreach (MappedFileClaimInfo claim in fenced)
            report.Add(Report.Number(claim.Offset), Report.Number(claim.Length), $"{claim.Slot}", $"{claim.ProcessId}");
        report.Write();
    }
}

/// <summary>The result of `mfq fence`.</summary>
/// <param name="Claims">The claims that were taken away.</param>
internal sealed record FenceResult(IReadOnlyList<MappedFileClaimInfo> Claims);

/// <summary>The JSON of `mfq fence`.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase, WriteIndented = true)]
[JsonSerializable(typeof(FenceResult))]
internal sealed partial class FenceJsonContext : JsonSerializerContext;
