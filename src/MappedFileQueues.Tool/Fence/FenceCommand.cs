using MappedFileQueues.Engine;
using MappedFileQueues.Tool.Info;

namespace MappedFileQueues.Tool.Fence;

/// <summary>
/// `mfq fence`: takes away the claims of a producer that stands still, so that readers continue. The library never does that by
/// itself, because nothing tells a process that stands still from one that is about to publish.
/// </summary>
internal static class FenceCommand
{
    private static readonly TimeSpan s_afterDefault = TimeSpan.FromSeconds(1);

    public static Command Create()
    {
        Argument<string> store = ToolOptions.Store();
        Argument<int> slot = new("SLOT") { Description = "The slot of the claim, which `mfq info` shows." };
        slot.Validators.Add(result =>
        {
            if (result.Tokens is [{ Value: { } text }] && int.TryParse(text, out int number)
                && number is < 0 or >= SlotLayout.SlotCount)
                result.AddError($"SLOT is a number from 0 to {SlotLayout.SlotCount - 1}, not {number}.");
        });
        Option<TimeSpan?> after = ToolOptions.Wait(
            "--after", "Take away only claims that stay unchanged for this long; default 1s.");
        StoreOptions opening = new(lockHelp: null);
        return new Command(
            "fence",
            "Take away the claims of a producer that stands still (stopped, frozen, in a debugger), so that readers continue: "
                + "`mfq fence orders 3`. Its messages there are lost. When it continues, the call that made the claim fails, and "
                + "the next one succeeds.")
        {
            store, slot, after, opening,
        }.Does(parsed => Interruption.Run(stopped =>
        {
            using StoreEngine queue = opening.Open(parsed, store);
            return Result.Write(
                parsed,
                Fence(queue, parsed.GetRequiredValue(slot), parsed.GetValue(after) ?? s_afterDefault, stopped),
                ToolJson.Default.FenceResult,
                result => InfoCommand.Claims("Fenced claims; what they were to hold is lost", result.Claims).Write());
        }));
    }

    /// <summary>Fences what has not moved; a signal during the wait has changed nothing.</summary>
    private static FenceResult Fence(StoreEngine queue, int slot, TimeSpan after, CancellationToken stopped)
    {
        MappedFileQueueInfo info = queue.GetInfo();
        MappedFileClaimInfo[] before = [.. info.OpenClaims.Where(claim => claim.Slot == slot)];
        if (before.Length == 0)
            throw Nothing(queue, info, slot);
        ErrorLine.Write(
            $"Slot {slot} has {Report.Count(before.Length, "open claim")}, the first at offset {before[0].Offset}, "
                + $"of pid {before[0].ProcessId}; waiting {after.TotalSeconds} s to see whether it continues.",
            ExitCodes.Success);
        if (stopped.WaitHandle.WaitOne(after))
            throw new OperationCanceledException(stopped);
        HashSet<long> still = [.. queue.GetInfo().OpenClaims.Where(claim => claim.Slot == slot).Select(claim => claim.Offset)];
        MappedFileClaimInfo[] fenced =
            [.. before.Where(claim => still.Contains(claim.Offset) && queue.TryFence(claim.Offset, slot))];
        return fenced.Length > 0 ? new FenceResult(fenced) : throw new ToolException(
            $"The producer continues by itself: slot={slot}, pid={before[0].ProcessId}. Nothing was fenced.");
    }

    private static ToolException Nothing(StoreEngine queue, MappedFileQueueInfo info, int slot)
    {
        string place = $"slot={slot}, path={info.StorePath}";
        using PlatformLock? probe = queue.Store.Directory.Probe(StoreNames.ProducersLock);
        if (probe is null)
        {
            return new ToolException(
                $"An Exclusive producer has the store, and it makes no claims: {place}, "
                + $"pid={string.Join(",", info.ProducerProcesses)}. Let it continue, or end it.");
        }

        string others = info.OpenClaims.Count == 0
            ? "No claim is open."
            : $"Claims are open of slot {string.Join(", ", info.OpenClaims.Select(claim => claim.Slot).Distinct())}.";
        return new ToolException($"The slot has no open claim: {place}. {others}");
    }
}

/// <summary>The result of `mfq fence`.</summary>
internal sealed record FenceResult(IReadOnlyList<MappedFileClaimInfo> Claims);
