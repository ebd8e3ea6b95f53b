using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>
/// One seed of faults by the simulated disk: a device that fails, a disk that is full, descriptors that run out.
/// </summary>
internal sealed class SimulatedFaults(int seed, PartResult result)
{
    private const int OpenPagesMax = 48;

    private readonly Random _random = new(seed);
    private string _boot = "";

    public void Run()
    {
        FailSync();
        FillDisk();
        OpenOnFullDisk();
        RunOutOfFiles();
    }

    /// <summary>
    /// A sync fails: whoever flushes hears of it, so does everybody afterwards, in all processes; nothing is durable any more;
    /// and what was durable before survives a cut in this very moment.
    /// </summary>
    private void FailSync()
    {
        LabPlan plan = NewPlan();
        using var disk = new SimDisk(tracksMedium: true);
        var model = new LogModel(seed);
        LabProcess[] processes = [Start(disk, plan), Start(disk, plan)];
        Append(processes, model, plan, _random.Next(1, 30));
        processes[_random.Next(2)].Queue.Flush();
        model.Acknowledge(model.Entries.Count);
        long before = processes[0].Producer!.ConfirmedOffset;
        Append(processes, model, plan, _random.Next(1, 30));
        int left = _random.Next(1, 3);
        disk.Faults = new SimFaults { FailsSync = name => !name.EndsWith(".tmp", StringComparison.Ordinal) && --left == 0 };
        bool hasFailed = !Flushes(processes[_random.Next(2)].Queue);
        bool wasHit = left <= 0;
        disk.Faults = null;
        if (wasHit && !hasFailed)
            throw new LabViolation("A flush whose sync failed says that it did not");
        if (!hasFailed)
            model.Acknowledge(model.Entries.Count);
        else
            ExpectPoisoned(processes, before, model);
        CheckCuts(disk, model, plan, before, hasFailed);
        foreach (LabProcess process in processes)
            process.Queue.Dispose();
        Reopen(disk, model, plan);
        result.Add("sync errors");
    }

    /// <summary>
    /// The remedy: all close, one opens and looks at what the disk really holds. What it finds is durable from then on, so it
    /// survives a cut, although the kernel took the pages that it could not write for clean.
    /// </summary>
    private void Reopen(SimDisk disk, LogModel model, LabPlan plan)
    {
        var oracle = new ImageOracle(plan, model.Picture(default, "reopened"), isCut: true, _random) { GoesOn = false };
        oracle.Check(SimDisk.Root, new SimServices(disk, _boot, plan.HasFence));
        foreach ((LogEntry entry, ReadMessage message) in oracle.Survivors.Zip(oracle.Messages))
        {
            entry.Offset = message.Offset;
            entry.State = EntryState.Published;
        }

        model.Restart(oracle.Survivors, oracle.Oldest);
        CheckCuts(disk, model, plan, 0, hasFailed: false);
    }

    private void CheckCuts(SimDisk disk, LogModel model, LabPlan plan, long confirmed, bool hasFailed)
    {
        var picture = new DiskPicture(disk);
        SimFile control = picture.Names[StoreNames.Control];
        ControlWords words = ControlWords.Of(picture.Files[control].Content);
        long promised = words.Confirmed;
        if (hasFailed && promised != confirmed)
            throw new LabViolation($"After a flush that failed the control page confirms {promised} instead of {confirmed}");
        ModelPicture known = model.Picture(words, "a failed sync");
        for (int i = 0; i < 6; i++)
        {
            using SimDisk image = CutImage.OfCut(picture, _random, tracksMedium: false);
            new ImageOracle(plan, known, isCut: true, _random)
                .Check(SimDisk.Root, new SimServices(image, Guid.NewGuid().ToString(), plan.HasFence));
            result.Add("images");
        }
    }

    private static bool Flushes(MappedFileQueue queue)
    {
        try
        {
            queue.Flush();
            return true;
        }
        catch (MappedFileQueueException error) when (error is QueueDiskException or QueuePoisonedException)
        {
            return false;
        }
    }

    private void ExpectPoisoned(LabProcess[] processes, long confirmed, LogModel model)
    {
        for (int which = 0; which < processes.Length; which++)
        {
            LabProcess process = processes[which];
            LabViolation.Expect<QueuePoisonedException>(() => process.Queue.Flush(), "a flush after one that failed");
            // The append throws; the message may be there all the same, or not.
            LogEntry entry = model.Add(new LogEntry(which, model.Entries.Count + 1, 20, model.NewUnit()));
            byte[] bytes = LabMessage.Make(seed, which, entry.Number, entry.Length);
            LabViolation.Expect<QueuePoisonedException>(
                () => process.Producer!.Produce(bytes), "an append after a flush that failed");
            if (process.Producer!.ConfirmedOffset != confirmed)
                throw new LabViolation($"{process.Producer.ConfirmedOffset} is confirmed after a failed flush; "
                    + $"before: {confirmed}");
        }
    }

    /// <summary>
    /// The disk is full in the middle of appending: an exception, nothing lost, no store into a hole; then room again.
    /// </summary>
    private void FillDisk()
    {
        LabPlan plan = NewPlan();
        using var disk = new SimDisk(tracksMedium: false);
        var model = new LogModel(seed);
        LabProcess[] processes = [Start(disk, plan), Start(disk, plan)];
        disk.Faults = new SimFaults { BlocksLeft = _random.Next(300) };
        LabViolation.Expect<QueueDiskException>(() => Append(processes, model, plan, int.MaxValue), "appending to a full disk");
        ExpectNoHoles(disk);
        ExpectAll(model);
        disk.Faults = null;
        Append(processes, model, plan, 40);
        processes[0].Queue.Flush();
        ExpectAll(model);
        foreach (LabProcess process in processes)
            process.Queue.Dispose();
        result.Add("full disks");
    }

    private void OpenOnFullDisk()
    {
        LabPlan plan = NewPlan();
        for (int pages = 0; pages < OpenPagesMax; pages++)
        {
            using var disk = new SimDisk(tracksMedium: false) { Faults = new SimFaults { BlocksLeft = pages } };
            for (int attempt = 0; attempt < 2; attempt++)
            {
                try
                {
                    Start(disk, plan).Queue.Dispose();
                }
                catch (QueueDiskException error) when (error.Errno == DiskErrors.ENOSPC && attempt == 0)
                {
                    // As it should be.
                }

                ExpectNoHoles(disk);
                disk.Faults = null;
            }

            result.Add("full disks");
        }
    }

    /// <summary>
    /// Descriptors run out here and there: typed exceptions, nothing that returned is lost, nothing else is there.
    /// </summary>
    private void RunOutOfFiles()
    {
        LabPlan plan = NewPlan();
        using var disk = new SimDisk(tracksMedium: false);
        var model = new LogModel(seed);
        LabProcess[] processes = [Start(disk, plan), Start(disk, plan)];
        int rarity = _random.Next(2, 12);
        disk.Faults = new SimFaults { FailsOpen = _ => _random.Next(rarity) == 0 };
        for (int i = 0; i < 60; i++)
        {
            int count = model.Entries.Count;
            try
            {
                Append(processes, model, plan, 1);
                if (_random.Next(8) == 0)
                    processes[_random.Next(2)].Queue.Flush();
            }
            catch (QueueDiskException error) when (error.Errno == DiskErrors.EMFILE)
            {
                result.Add("refused descriptors");
                if (model.Entries.Count > count && model.Entries[^1].State == EntryState.UnderWay)
                    model.Entries[^1].State = EntryState.Abandoned;
            }
        }

        disk.Faults = null;
        ExpectAll(model);
        Append(processes, model, plan, 10);
        processes[0].Queue.Flush();
        ExpectAll(model);
        foreach (LabProcess process in processes)
            process.Queue.Dispose();
    }

    private LabPlan NewPlan()
    {
        // Two processes append here, so no counted flushes and no Exclusive mode.
        while (true)
        {
            var plan = new LabPlan(_random);
            if (!plan.IsExclusive && !plan.Waits && plan.Level == DurabilityLevel.PageCache)
            {
                byte[] id = new byte[16];
                _random.NextBytes(id);
                _boot = new Guid(id).ToString();
                return plan;
            }
        }
    }

    private LabProcess Start(SimDisk disk, LabPlan plan)
    {
        LabThread.Background.Clear();
        var id = new Guid(seed, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
        LabProcess process = LabProcess.Start(disk, plan, _boot, id, isExclusive: false);
        try
        {
            process.Producer = process.Queue.OpenProducer();
            return process;
        }
        catch
        {
            process.Queue.Dispose();
            throw;
        }
    }

    private void Append(LabProcess[] processes, LogModel model, LabPlan plan, int count)
    {
        for (int i = 0; i < count; i++)
        {
            int which = _random.Next(processes.Length);
            LogEntry entry = model.Add(new LogEntry(which, model.Entries.Count + 1, plan.NextLength(_random), model.NewUnit()));
            byte[] bytes = LabMessage.Make(seed, which, entry.Number, entry.Length);
            entry.Offset = processes[which].Producer!.Produce(bytes);
            entry.State = EntryState.Published;
            LabThread.Background.Clear();
        }
    }

    private static void ExpectAll(LogModel model)
    {
        using MappedFileReader reader = MappedFileReader.Open(SimDisk.Root);
        foreach (LogEntry entry in model.Entries.Where(entry => entry.State == EntryState.Published))
        {
            byte[] expected = LabMessage.Make(model.Seed, entry.Producer, entry.Number, entry.Length);
            if (!reader.TryRead(out ReadOnlySpan<byte> message) || !message.SequenceEqual(expected))
                throw new LabViolation($"Message {entry.Number}, whose append returned, is not read at {entry.Offset}");
        }

        if (reader.TryRead(out ReadOnlySpan<byte> ghost))
            throw new LabViolation($"A message is read whose append has failed: {LabMessage.Describe(ghost)}");
    }

    private static void ExpectNoHoles(SimDisk disk)
    {
        if (new DiskPicture(disk).HolesStoredInto.FirstOrDefault() is { } hole)
            throw new LabViolation($"Somebody stored into a hole of {hole}: on a full disk that kills the process");
    }
}
