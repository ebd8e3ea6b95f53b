using System.Diagnostics;

namespace MappedFileQueues.Tool.Verify;

/// <summary>`mfq verify`: reads everything in a store and reports damage.</summary>
internal static class VerifyCommand
{
    public static Command Create()
    {
        Argument<string> store = ToolOptions.Store("The store's directory; it may be in use.");
        return new Command(
            "verify",
            "Check every message and every file of a store, beside the programs that use it: `mfq verify orders`. It only reads. "
                + "Exit code 3 says that something is damaged.")
        {
            store,
        }.Does(parsed => Interruption.Run(stopped =>
        {
            StoreVerification verification = Run(parsed.GetRequiredValue(store), stopped);
            return Result.Write(
                parsed, verification, ToolJson.Default.StoreVerification, Print,
                verification.IsWhole ? ExitCodes.Success : ExitCodes.Damaged);
        }));
    }

    /// <summary>Checks a store, with a bar.</summary>
    public static StoreVerification Run(string storePath, CancellationToken stopped)
    {
        long begun = Stopwatch.GetTimestamp();
        using ProgressLine progress = new("verifying");
        using StoreVerifier verifier = new(storePath, progress.Report, stopped);
        StoreVerification verification = verifier.Verify();
        verification.Seconds = Stopwatch.GetElapsedTime(begun).TotalSeconds;
        return verification;
    }

    private static void Print(StoreVerification verification)
    {
        Report report = new("Checked", "", "");
        report.Add("path", verification.StorePath);
        report.Add("offsets", $"{Report.Number(verification.FirstOffset)} to {Report.Number(verification.EndOffset)}");
        report.Add("segments", Report.Number(verification.SegmentCount));
        report.Add("messages", $"{Report.Number(verification.MessageCount)}, {Report.Bytes(verification.MessageBytes)}");
        if (verification.OpenClaimCount > 0)
            report.Add("open claims", Report.Number(verification.OpenClaimCount));
        if (verification.DeadClaimCount > 0)
            report.Add("claims of the dead", Report.Number(verification.DeadClaimCount));
        if (verification.ProducerCount > 0)
            report.Add("producers with an id", Report.Number(verification.ProducerCount));
        if (verification.UnrecoveredFrom is { } offset)
            report.Add("not recovered", $"from {Report.Number(offset)} on: the next opener cuts off what is not whole");
        report.Add("time", $"{verification.Seconds:F3} s");
        report.Add("result", verification.IsWhole ? "all whole" : "DAMAGED");
        report.Write();
        Report damages = new("Damage in the log", "offset", "next", "bytes", "file", "what");
        foreach (DamagedRange damage in verification.Damages)
        {
            damages.Add(
                Report.Number(damage.Offset), Report.Number(damage.NextOffset, "unknown"),
                Report.Number(damage.Length, "unknown"), damage.File, damage.Reason);
        }

        damages.WriteIfAny();
        Report files = new("Other files", "file", "", "what", "remedy");
        foreach (FileFinding finding in verification.Findings)
            files.Add(finding.File, finding.IsDamage ? "damaged" : "note", finding.Reason, finding.Remedy);
        files.WriteIfAny();
    }
}
