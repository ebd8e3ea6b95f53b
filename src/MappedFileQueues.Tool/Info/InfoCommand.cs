using MappedFileQueues.Tool.Retention;

namespace MappedFileQueues.Tool.Info;

/// <summary>`mfq info`: shows what a store holds and which processes use it, without leaving a trace in it.</summary>
internal static class InfoCommand
{
    public static Command Create()
    {
        Argument<string> store = ToolOptions.Store();
        Option<bool> count = ConsumersCommand.CountOption();
        return new Command(
            "info", "Show a store's offsets, segments, consumers with their lag, and attached processes: `mfq info orders`.")
        {
            store, count,
        }.Does(parsed => Result.Write(
            parsed, ConsumersCommand.InfoWithCounts(parsed.GetRequiredValue(store), parsed.GetValue(count)),
            ToolJson.Default.MappedFileQueueInfo, Print));
    }

    /// <summary>Claims as a report; `mfq fence` shows the same.</summary>
    public static Report Claims(string title, IEnumerable<MappedFileClaimInfo> claims)
    {
        Report report = new(title, "offset", "length", "slot", "pid");
        foreach (MappedFileClaimInfo claim in claims)
            report.Add(Report.Number(claim.Offset), Report.Number(claim.Length), $"{claim.Slot}", $"{claim.ProcessId}");
        return report;
    }

    private static void Print(MappedFileQueueInfo info)
    {
        Report store = new("Store", "", "");
        store.Add("path", info.StorePath);
        store.Add("id", info.StoreId.ToString());
        store.Add("kind", info.StructSize > 0 ? $"structs of {Report.Bytes(info.StructSize)}" : "messages of any length");
        store.Add("made", $"{info.Created:u}");
        store.Add("segments", $"{Report.Number(info.SegmentCount)} of {Report.Bytes(info.SegmentSize)}");
        store.Add("on disk", Report.Bytes(info.BytesOnDisk));
        store.Add("log start", Report.Number(info.LogStart));
        if (info.Retention is not null || info.IsRetentionDamaged)
            store.Add("retention", PolicyText.Of(info));
        if (PolicyText.HeldBack(info) is { } held)
            store.Add("held back", held);
        if (info.RetentionFailingSince is { } failing)
        {
            store.Add("retention fails", $"since {failing:u}, pid {info.RetentionFailingProcessId}: "
                + OperatorWords.Of(info.LastRetentionError!));
        }

        foreach (string problem in info.FileProblems)
            store.Add("damage", problem);
        foreach (string problem in info.CursorProblems)
            store.Add("cursor", OperatorWords.Of(problem));
        store.Add("confirmed", Report.Number(info.ConfirmedOffset));
        store.Add("published", Report.Number(info.PublishedOffset));
        store.Add("messages", Report.Number(info.MessageCount, "-"));
        store.Add("tail", Report.Number(info.TailOffset));
        store.Add("epoch", Report.Number(info.Epoch));
        store.Add("repairs", Report.Number(info.RepairCount));
        store.Add("poisoned", info.IsPoisoned ? "yes: a flush failed; close it everywhere and open it again" : "no");
        if (info.FlushFailingSince is { } since)
            store.Add("flushes", $"fail since {since:u}, pid {info.FlushFailingProcessId}: {info.LastFlushError}");
        store.Add("attached", Processes(info.AttachedProcesses));
        store.Add("producers", Processes(info.ProducerProcesses));
        store.Write();
        ConsumersCommand.Table(info.Consumers).WriteIfAny();
        GroupCommands.Table(info.Groups).WriteIfAny();
        Claims("Open claims, at which readers wait", info.OpenClaims).WriteIfAny();
    }

    private static string Processes(IReadOnlyList<int> ids) => ids.Count == 0 ? "none known" : $"pid {string.Join(", ", ids)}";
}
