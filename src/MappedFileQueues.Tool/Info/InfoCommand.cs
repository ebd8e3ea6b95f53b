using System.CommandLine;
using System.Globalization;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Consumers;
using MappedFileQueues.Tool.Output;
using MappedFileQueues.Tool.Retention;

namespace MappedFileQueues.Tool.Info;

/// <summary>`mfq info`: shows what a store holds and which processes use it, without leaving a trace in it.</summary>
internal static class InfoCommand
{
    public static Command Create()
    {
        Argument<string> store = ToolOptions.PathArgument("STORE", "The store's directory; it is never created.");
        Option<bool> count = ConsumersCommand.CountOption();
        Command command = new(
            "info", "Show a store's offsets, segments, consumers with their lag, and attached processes: `mfq info orders`.")
        {
            store,
            count,
        };
        command.SetAction(parsed =>
        {
            MappedFileQueueInfo info = StoreLook.InfoWithCounts(parsed.GetRequiredValue(store), parsed.GetValue(count));
            if (OutputOption.IsJson(parsed))
                OutputOption.WriteJson(info, InfoJsonContext.Default.MappedFileQueueInfo);
            else
                Print(info);
            return ExitCodes.Success;
        });
        return command;
    }

    private static void Print(MappedFileQueueInfo info)
    {
        Report store = new("Store", "", "");
        store.Add("path", info.StorePath);
        store.Add("id", info.StoreId.ToString());
        store.Add("kind", info.StructSize > 0 ? $"structs of {Report.Bytes(info.StructSize)}" : "messages of any length");
        store.Add("made", info.Created.ToString("u", CultureInfo.InvariantCulture));
        store.Add("segments", $"{Report.Number(info.SegmentCount)} of {Report.Bytes(info.SegmentSize)}");
        store.Add("on disk", Report.Bytes(info.BytesOnDisk));
        store.Add("oldest offset", Report.Number(info.OldestOffset));
        if (info.Retention is not null || info.IsRetentionDamaged)
            store.Add("retention", PolicyText.Of(info));
        if (PolicyText.HeldBack(info) is { } held)
            store.Add("held back", held);
        if (info.RetentionFailingSince is { } failing)
        {
            store.Add("retention fails", string.Create(
                CultureInfo.InvariantCulture,
                $"since {failing:u}, pid {info.RetentionFailingProcessId}: {OperatorWords.Of(info.LastRetentionError!)}"));
        }

        foreach (string problem in info.FileProblems)
            store.Add("damage", problem);
        foreach (string problem in info.CursorProblems)
            store.Add("cursor", OperatorWords.Of(problem));
        store.Add("confirmed", Report.Number(info.ConfirmedOffset));
        store.Add("published", Report.Number(info.PublishedOffset));
        store.Add("messages", ListCommand.Count(info.MessageCount));
        store.Add("tail", Report.Number(info.TailOffset));
        store.Add("epoch", Report.Number(info.Epoch));
        store.Add("repairs", Report.Number(info.RepairCount));
        store.Add("poisoned", info.IsPoisoned ? "yes: a flush failed; close it everywhere and open it again" : "no");
        if (info.FlushFailingSince is { } since)
        {
            store.Add("flushes", string.Create(
                CultureInfo.InvariantCulture, $"fail since {since:u}, pid {info.FlushFailingProcessId}: {info.LastFlushError}"));
        }

        store.Add("attached", Processes(info.AttachedProcesses));
        store.Add("producers", Processes(info.ProducerProcesses));
        store.Write();

        if (info.Consumers.Count > 0)
            ListCommand.Table(info.Consumers).Write();

        Report claims = new("Open claims, at which readers wait", "offset", "length", "slot", "pid");
        foreach (MappedFileClaimInfo claim in info.OpenClaims)
            claims.Add(Report.Number(claim.Offset), Report.Number(claim.Length), $"{claim.Slot}", $"{claim.ProcessId}");
        if (claims.RowCount > 0)
            claims.Write();
    }

    private static string Processes(IReadOnlyList<int> ids) => ids.Count == 0 ? "none known" : $"pid {string.Join(", ", ids)}";
}
