using MappedFileQueues.Engine;
using MappedFileQueues.Log.Snapshots;

namespace MappedFileQueues.Tool.Snapshots;

/// <summary>`mfq snapshot`: makes a consistent copy of a store that is in use.</summary>
internal static class SnapshotCommand
{
    public static Command Create()
    {
        Argument<string> store = ToolOptions.Store("The store's directory; it may be in use.");
        Argument<string> target = ToolOptions.PathArgument("TARGET", "A directory that is missing or empty.");
        Option<bool> keepId = ToolOptions.Flag(
            "--keep-id", "Give the copy the store's own id, for a copy that is to take the store's place.");
        StoreOptions opening = new("How long to wait for a program that is opening the store; at least 30 s.");
        return new Command(
            "snapshot",
            "Copy a store up to one offset while programs use it: `mfq snapshot orders backups/orders-1`. Full segments "
                + "are shared with the copy by hard links where the file system allows that.")
        {
            store, target, keepId, opening,
        }.Does(parsed =>
        {
            using StoreEngine queue = opening.Open(parsed, store);
            SnapshotResult result = queue.Snapshot(
                parsed.GetRequiredValue(target), new SnapshotOptions { KeepStoreId = parsed.GetValue(keepId) });
            return Result.Write(parsed, result, ToolJson.Default.SnapshotResult, Print);
        });
    }

    private static void Print(SnapshotResult result)
    {
        Report report = new("Snapshot", "", "");
        report.Add("path", result.Path);
        report.Add("id", result.StoreId.ToString());
        report.Add("offsets", $"{Report.Number(result.FirstOffset)} to {Report.Number(result.Offset)}");
        report.Add("segments", $"{Report.Number(result.LinkedCount)} shared, {Report.Number(result.CopiedCount)} copied");
        report.Add("consumers", Report.Number(result.ConsumerCount));
        report.Write();
    }
}
