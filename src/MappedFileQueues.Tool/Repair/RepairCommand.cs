using System.CommandLine;
using MappedFileQueues.Format;
using MappedFileQueues.Inspection;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Output;
using MappedFileQueues.Tool.Verify;

namespace MappedFileQueues.Tool.Repair;

/// <summary>`mfq repair`: makes a damaged store usable, and says exactly what is lost.</summary>
internal static class RepairCommand
{
    public static Command Create()
    {
        Argument<string> store = ToolOptions.PathArgument("STORE", "The store's directory.");
        Option<bool> dryRun = ToolOptions.Flag("--dry-run", "Only show what would be done; the store may be in use.");
        Option<bool> apply = ToolOptions.Flag("--apply", "Do it. No other program may have the store open.");
        Option<TimeSpan?> lockTimeout = StoreOptions.LockTimeout();
        Option<bool> allowFileSystem = StoreOptions.AllowFileSystem();
        Command command = new(
            "repair",
            "Make a damaged store usable and lose nothing but what is damaged: `mfq repair orders --dry-run`, then --apply. "
                + "Files that it changes are kept in salvage/ as they were. Exit code 3 says that there is something to repair, "
                + "or that damage is left.")
        {
            store, dryRun, apply, lockTimeout, allowFileSystem,
        };
        command.Validators.Add(result =>
        {
            if (result.GetResult(dryRun) is null == result.GetResult(apply) is null)
                result.AddError("Give either --dry-run or --apply.");
        });
        command.SetAction(parsed =>
        {
            string path = Path.GetFullPath(parsed.GetRequiredValue(store));
            using Interruption interruption = new();
            RepairReport report;
            try
            {
                report = parsed.GetValue(apply)
                    ? Apply(path, parsed.GetValue(lockTimeout) ?? TimeSpan.Zero, parsed.GetValue(allowFileSystem),
                        interruption.Token)
                    : Plan(path, interruption.Token);
            }
            catch (OperationCanceledException)
            {
                return interruption.ExitCode;
            }

            if (OutputOption.IsJson(parsed))
                OutputOption.WriteJson(report, RepairJsonContext.Default.RepairReport);
            else
                Print(report);
            bool isWhole = report.After is { } after ? after.IsWhole : report.Steps.Count == 0 && report.LeftAlone.Count == 0;
            return isWhole ? ExitCodes.Success : ExitCodes.Damaged;
        });
        return command;
    }

    private static RepairReport Plan(string path, CancellationToken stopped)
    {
        StoreVerification found = VerifyCommand.Run(path, stopped);
        using var store = ReadOnlyStore.Open(path, verifiesChecksum: true);
        RepairPlan plan = RepairPlan.Make(store, found);
        return new RepairReport(path, IsDryRun: true, plan.Steps, plan.LeftAlone, [], null);
    }

    /// <summary>
    /// Checks once nobody else can change the store. A signal ends it between two steps; what is done by then is whole, and the
    /// next call does the rest.
    /// </summary>
    private static RepairReport Apply(string path, TimeSpan lockTimeout, bool allowsFileSystem, CancellationToken stopped)
    {
        RepairFiles files;
        RepairPlan plan;
        using (HeldDirectory directory = OpenDirectory(path, allowsFileSystem, out StoreMeta meta))
        using (MakeAndLock(directory, lockTimeout))
        using (LockWait.TryTake(directory, StoreNames.AttachedLock, LockKind.Exclusive, lockTimeout, look: null)
            ?? throw directory.InUse(
                StoreNames.AttachedLock, "The store is open, so it cannot be repaired", "End the programs that use it first."))
        using (MetaLock.Take(directory, StoreNames.Meta, isAlone: true))
        {
            StoreVerification found = VerifyCommand.Run(path, stopped);
            using (var store = ReadOnlyStore.Open(path, verifiesChecksum: true))
                plan = RepairPlan.Make(store, found);
            files = new RepairFiles(directory, meta, DateTimeOffset.UtcNow);
            foreach (RepairStep step in plan.Steps)
            {
                stopped.ThrowIfCancellationRequested();
                step.Apply(files);
            }
        }

        // As the next program would: the control page still says what was before.
        AttachedStore.Open(new MappedFileQueueOptions
        {
            StorePath = path,
            LockTimeout = lockTimeout,
            DangerouslyAllowFileSystem = allowsFileSystem,
        }).Dispose();
        StoreVerification after = VerifyCommand.Run(path, CancellationToken.None);
        return new RepairReport(path, IsDryRun: false, plan.Steps, plan.LeftAlone, files.Salvage, after);
    }

    /// <summary>Missing folders are made first: the lock is in one of them, and what is written anew in others.</summary>
    private static PlatformLock MakeAndLock(HeldDirectory directory, TimeSpan lockTimeout)
    {
        directory.CreateSubdirectory(StoreNames.Locks);
        PlatformLock open = OpenLock.Take(directory, lockTimeout);
        foreach (string name in StoreNames.Directories)
            directory.CreateSubdirectory(name);
        return open;
    }

    private static HeldDirectory OpenDirectory(string path, bool allowsFileSystem, out StoreMeta meta)
    {
        HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(path, create: false, mode: null) ?? throw Missing(path);
        try
        {
            meta = StoreMetaFile.Read(directory) ?? throw Missing(path);
            if (directory.UnsafeFileSystem is { } name && !allowsFileSystem)
            {
                throw new ToolException($"Locks are not dependable on this file system: path={path}, fileSystem={name}. Copy the "
                    + "store to a local disk, or set --dangerously-allow-file-system if you know better.");
            }

            directory.AdoptModeOf(StoreNames.Meta);
            return directory;
        }
        catch
        {
            directory.Dispose();
            throw;
        }
    }

    private static ToolException Missing(string path) => new($"There is no store: path={path}. Correct the path.");

    private static void Print(RepairReport report)
    {
        Report steps = new(report.IsDryRun ? "Would be done" : "Done", "file", "what", "lost");
        foreach (RepairStep step in report.Steps)
            steps.Add(step.File, step.Action, step.Loss ?? "nothing");
        if (steps.RowCount > 0)
            steps.Write();
        foreach (string left in report.LeftAlone)
            OutputLine.Write($"Left alone: {left}");
        foreach (string kept in report.Salvage)
            OutputLine.Write($"As it was: {kept}");
        if (report.Steps.Count == 0 && report.LeftAlone.Count == 0)
            OutputLine.Write("Nothing is damaged.");
        else if (report.After is { } after)
            OutputLine.Write(after.IsWhole ? "The store is whole now." : "Damage is left: `mfq verify` shows it.");
    }
}
