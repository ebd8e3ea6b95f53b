namespace MappedFileQueues.Tool.Repair;

/// <summary>`mfq repair`: makes a damaged store usable, and says exactly what is lost.</summary>
internal static class RepairCommand
{
    public static Command Create()
    {
        Argument<string> store = ToolOptions.Store("The store's directory.");
        Option<bool> dryRun = ToolOptions.Flag("--dry-run", "Only show what would be done; the store may be in use.");
        Option<bool> apply = ToolOptions.Flag("--apply", "Do it. No other program may have the store open.");
        StoreOptions opening = new();
        Command command = new(
            "repair",
            "Make a damaged store usable and lose nothing but what is damaged: `mfq repair orders --dry-run`, then --apply. "
                + "Files that it changes are kept in salvage/ as they were. Exit code 3 says that there is something to repair, "
                + "or that damage is left.")
        {
            store, dryRun, apply, opening,
        };
        command.Validators.Add(result =>
        {
            if (result.GetResult(dryRun) is null == result.GetResult(apply) is null)
                result.AddError("Give either --dry-run or --apply.");
        });
        return command.Does(parsed => Interruption.Run(stopped =>
        {
            MappedFileQueueOptions options = opening.Of(parsed, SystemPath.Full(parsed.GetRequiredValue(store)));
            RepairReport report = parsed.GetValue(apply) ? Apply(options, stopped) : Plan(options.StorePath, stopped);
            bool isWhole = report.After?.IsWhole ?? (report.Steps.Count == 0 && report.LeftAlone.Count == 0);
            return Result.Write(
                parsed, report, ToolJson.Default.RepairReport, Print, isWhole ? ExitCodes.Success : ExitCodes.Damaged);
        }));
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
    private static RepairReport Apply(MappedFileQueueOptions options, CancellationToken stopped)
    {
        string path = options.StorePath;
        RepairFiles files;
        RepairPlan plan;
        using (HeldDirectory directory = OpenDirectory(path, options.DangerouslyAllowFileSystem, out StoreMeta meta))
        using (MakeAndLock(directory, options.LockTimeout))
        using (LockWait.TryTake(
            directory, StoreNames.AttachedLock, LockKind.Exclusive, options.LockTimeout, look: null)
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
        AttachedStore.Open(options).Dispose();
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
        HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(path, create: false, mode: null)
            ?? throw AttachedStore.Missing(path);
        try
        {
            meta = StoreMetaFile.Read(directory) ?? throw AttachedStore.Missing(path);
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

    private static void Print(RepairReport report)
    {
        Report steps = new(report.IsDryRun ? "Would be done" : "Done", "file", "what", "lost");
        foreach (RepairStep step in report.Steps)
            steps.Add(step.File, step.Action, step.Loss ?? "nothing");
        steps.WriteIfAny();
        foreach (string left in report.LeftAlone)
            OutputLine.Write($"Left alone: {left}");
        foreach (string kept in report.Salvage)
            OutputLine.Write($"As it was: {kept}");
        if (report.After is { IsWhole: false })
            OutputLine.Write("Damage is left: `mfq verify` shows it.");
        else if (report.Steps.Count == 0 && report.LeftAlone.Count == 0)
            OutputLine.Write("Nothing is damaged.");
        else if (report.After is not null)
            OutputLine.Write("The store is whole now.");
    }
}
