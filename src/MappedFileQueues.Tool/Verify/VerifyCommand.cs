using System.CommandLine;
using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Verify;

/// <summary>`mfq verify`: reads everything in a store and reports damage.</summary>
internal static class VerifyCommand
{
    public static Command Create()
    {
        Argument<string> store = ToolOptions.PathArgument("STORE", "The store's directory; it may be in use.");
        Command command = new(
            "verify",
            "Check every message and every file of a store, beside the programs that use it: `mfq verify orders`. It only reads. "
                + "Exit code 3 says that something is damaged.")
        {
            store,
        };
        command.SetAction(parsed =>
        {
            using Interruption interruption = new();
            StoreVerification verification;
            try
            {
                verification = Run(parsed.GetRequiredValue(store), interruption.Token);
            }
            catch (OperationCanceledException)
            {
                return interruption.ExitCode;
            }

            if (OutputOption.IsJson(parsed))
                OutputOption.WriteJson(verification, VerifyJsonContext.Default.StoreVerification);
            else
                Print(verification);
            return verification.IsWhole ? ExitCodes.Success : ExitCodes.Damaged;
        });
        return command;
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

    /// <summary>The damaged places, as a table; `mfq repair` shows the same.</summary>
    public static void PrintDamage(StoreVerification verification)
    {
        Report damages = new("Damage in the log", "offset", "next", "bytes", "file", "what");
        foreach (DamagedRange damage in verification.Damages)
        {
            damages.Add(
                Report.Number(damage.Offset),
                damage.NextOffset is { } next ? Report.Number(next) : "unknown",
                damage.Length is { } length ? Report.Number(length) : "unknown",
                damage.File,
                damage.Reason);
        }

        if (damages.RowCount > 0)
            damages.Write();
        Report files = new("Other files", "file", "", "what", "remedy");
        foreach (FileFinding finding in verification.Findings)
            files.Add(finding.File, finding.IsDamage ? "damaged" : "note", finding.Reason, finding.Remedy);
        if (files.RowCount > 0)
            files.Write();
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
        if (verification.UnrecoveredFrom is { } offset)
            report.Add("not recovered", $"from {Report.Number(offset)} on: the next opener cuts off what is not whole");
        report.Add("time", string.Create(CultureInfo.InvariantCulture, $"{verification.Seconds:F3} s"));
        report.Add("result", verification.IsWhole ? "all whole" : "DAMAGED");
        report.Write();
        PrintDamage(verification);
    }
}
