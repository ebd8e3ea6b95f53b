using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.Retention;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Inspection;

/// <summary>
/// Gathers the state of a store from its files by reading only: it reads headers at positions, maps nothing that would have to be
/// kept alive, and takes no lock except to probe.
/// </summary>
internal static unsafe class StoreStatus
{
    /// <param name="directory">The store.</param>
    /// <param name="meta">Its meta page.</param>
    /// <param name="control">Its control page; null when there is none.</param>
    /// <param name="countsMessages">Whether messages are counted, which walks over them all.</param>
    /// <param name="isRecovered">Whether the store was recovered in this boot. Then readers step over a dead producer's claim;
    /// else what is after it may be cut off.</param>
    /// <param name="time">Tells the time of now.</param>
    public static MappedFileQueueInfo Gather(
        HeldDirectory directory, StoreMeta meta, ControlPage? control, bool countsMessages, bool isRecovered, TimeProvider time)
    {
        while (true)
        {
            if (TryGather(directory, meta, control, countsMessages, isRecovered, time) is { } info)
                return info;
        }
    }

    /// <summary>The end of what readers can read.</summary>
    public static long FindPublished(HeldDirectory directory, StoreMeta meta, ControlPage? page, bool isRecovered)
    {
        ControlPage? control = page?.IsColdBlockValid(meta.StoreId) == true ? page : null;
        SegmentStarts segments = LogStartSearch.List(directory, meta);
        long from = Math.Max(
            LogStartSearch.Find(directory, meta, control), new CheckpointFile(directory, meta.StoreId).Read()?.Offset ?? 0);
        return Walk(directory, meta, from, segments.Count == 0 ? 0 : segments.Max, [], isRecovered).Published;
    }

    private static MappedFileQueueInfo? TryGather(
        HeldDirectory directory, StoreMeta meta, ControlPage? page, bool countsMessages, bool isRecovered, TimeProvider time)
    {
        DateTimeOffset now = time.GetUtcNow();
        // Of a page that is not valid no word counts.
        ControlPage? control = page?.IsColdBlockValid(meta.StoreId) == true ? page : null;
        using var lag = new ConsumerLag(directory, meta, control, now);
        long passed = LogFilesLook.PassedTo(directory, meta, control);
        long logStart = LogStartSearch.Find(directory, meta, control);
        SegmentStarts segments = LogStartSearch.List(directory, meta);
        CheckpointRecord? checkpoint = new CheckpointFile(directory, meta.StoreId).Read();
        // The word is zero for a moment while a process that opens the store alone rewrites the page.
        // P18 acquire: pairs with P18 full in FlushEngine.
        long confirmed = Math.Max(checkpoint?.Offset ?? 0, control is null ? 0 : SharedWord.ReadAcquire(control.Durable));
        List<MappedFileClaimInfo> claims = [];
        (long published, long tail) = Walk(
            directory, meta, Math.Max(logStart, checkpoint?.Offset ?? 0), segments.Count == 0 ? 0 : segments.Max, claims,
            isRecovered);
        List<string> fileProblems = LogFilesLook.Look(directory, meta, page, segments, logStart, passed, tail);
        if (fileProblems.Count > 0 && LogStartSearch.Find(directory, meta, control) != logStart)
            return null; // Retention has removed what was to be looked at.
        if (published < LogStartSearch.Find(directory, meta, control))
            return null; // Retention has overtaken the walk.
        lag.Begin(logStart, published, countsMessages);
        List<StoredCursor> problems = [];
        long? messageCount = lag.CountFrom(logStart);
        List<MappedFileConsumerInfo> consumers = FindConsumers(directory, published, lag, problems);
        while (countsMessages && LogStartSearch.Find(directory, meta, control) is var raised && raised != logStart)
        {
            // A segment that was removed during the count may have been another one when it was read.
            logStart = raised;
            if (published < logStart)
                return null;
            lag.LogStart = logStart;
            messageCount = lag.CountFrom(logStart);
            consumers = FindConsumers(directory, published, lag, problems);
        }

        List<MappedFileGroupInfo> groups = GroupStatus.Find(directory, meta.StoreId, published, lag, problems, time);

        // P11 acquire: pairs with P11 full in WakeSignal.
        bool isPoisoned = control is not null && (SharedWord.ReadAcquire(control.WaiterFlag) & ControlLayout.PoisonBit) != 0;
        FailureText? failure = control?.FlushFailure.Read();
        FailureText? retentionFailure = control?.RetentionFailure.Read();
        RetentionOptions? policy = RetentionFile.TryRead(directory, meta.StoreId, out bool isPolicyDamaged);
        RetentionPlan plan = policy is null
            ? default
            : RetentionPlan.Make(directory, meta, policy, logStart, published, now);
        IReadOnlyList<int>[] holders = directory.LockHolders(StoreNames.AttachedLock, StoreNames.ProducersLock);
        return new MappedFileQueueInfo
        {
            StorePath = directory.Path,
            StoreId = meta.StoreId,
            StructSize = meta.Kind == StoreKind.Struct ? meta.StructSize : 0,
            SegmentSize = meta.SegmentLength,
            Created = meta.Created,
            Epoch = Math.Max(control?.Epoch ?? 0, checkpoint?.Epoch ?? 0),
            LogStart = logStart,
            Retention = policy,
            IsRetentionDamaged = isPolicyDamaged,
            RetentionHeldBytes = plan.Goal - plan.Limit,
            RetentionHeldBy = plan.HeldBy is { } file ? StoreCursors.NameOf(file) : null,
            RetentionFailingSince = retentionFailure?.Since,
            LastRetentionError = retentionFailure?.Text,
            RetentionFailingProcessId = retentionFailure?.ProcessId,
            CursorProblems = [.. problems.OrderBy(cursor => !cursor.IsDamaged).Select(cursor => cursor.Problem!)],
            HasDamagedCursor = problems.Any(cursor => cursor.IsDamaged),
            FileProblems = fileProblems,
            PublishedOffset = published,
            MessageCount = messageCount,
            NumberedFrom = lag.NumberedFrom,
            AppendedMessages = lag.CountAppended(),
            TailOffset = tail,
            ConfirmedOffset = confirmed,
            // P13 acquire: pairs with P13 full in ClaimRepair.
            RepairCount = control is null ? 0 : (long)SharedWord.ReadAcquire(control.RepairCount),
            IsPoisoned = isPoisoned || directory.Identify(StoreNames.Poison) is not null,
            FlushFailingSince = failure?.Since,
            LastFlushError = failure?.Text,
            FlushFailingProcessId = failure?.ProcessId,
            SegmentCount = segments.Count,
            BytesOnDisk = MeasureDisk(directory),
            Consumers = consumers,
            Groups = groups,
            OpenClaims = claims,
            AttachedProcesses = holders[0],
            ProducerProcesses = holders[1],
        };
    }

    /// <summary>Ends with the last segment that existed at the start, so that it never chases a fast producer.</summary>
    private static (long Published, long Tail) Walk(
        HeldDirectory directory, StoreMeta meta, long from, long lastSegment, List<MappedFileClaimInfo> claims, bool isRecovered)
    {
        long offset = from;
        long published = -1;
        while (true)
        {
            long start = meta.StartOf(offset);
            using PlatformFile? file = start > lastSegment ? null : directory.Open(StoreNames.Segment(start), FileOpening.Read);
            if (file is null)
                break;
            var scanner = new SegmentScanner(file, start, meta.SegmentLength, meta.Checksum);
            while (offset - start < meta.SegmentLength)
            {
                if (!scanner.TryReadHeader(offset - start, out ulong header))
                    return (published < 0 ? offset : published, offset);
                if (FrameHeader.State(header) == FrameState.Claimed)
                {
                    MappedFileClaimInfo claim = Describe(directory, header, offset, out uint generation);
                    bool isSteppedOver = isRecovered && TryFindOwner(directory, header, generation) == ClaimOwner.Dead;
                    if (!isSteppedOver)
                    {
                        published = published < 0 ? offset : published;
                        claims.Add(claim);
                    }
                }

                offset += FrameHeader.FrameLength(FrameHeader.Length(header));
            }
        }

        return (published < 0 ? offset : published, offset);
    }

    /// <summary>What became of an owner; null where nobody knows.</summary>
    public static ClaimOwner? TryFindOwner(HeldDirectory directory, ulong claim, uint generation)
    {
        try
        {
            return ClaimRepair.OwnerOf(directory, claim, generation);
        }
        catch (MappedFileQueueException)
        {
            return null;
        }
    }

    private static MappedFileClaimInfo Describe(HeldDirectory directory, ulong header, long offset, out uint generation)
    {
        uint owner = FrameHeader.HighHalf(header);
        int slot = SlotLayout.Slot(owner);
        int processId = 0;

        // A copy may have no table; then the claim's own is as good.
        generation = SlotLayout.Generation(owner);
        if (ReadSlot(directory, slot) is { } entry)
            (generation, processId) = entry;

        return new MappedFileClaimInfo
        {
            Offset = offset,
            Length = FrameHeader.Length(header),
            Slot = slot,
            ProcessId = processId,
        };
    }

    /// <summary>The generation of a slot, and the process that took it last; null when there is no table.</summary>
    public static (uint Generation, int ProcessId)? ReadSlot(HeldDirectory directory, int slot)
    {
        using PlatformFile? slots = directory.Open(StoreNames.Slots, FileOpening.Read);
        Span<byte> bytes = stackalloc byte[8];
        return slots is not null && slots.ReadAt(bytes, SlotLayout.EntryAt(slot)) == bytes.Length
            ? (BitConverter.ToUInt32(bytes), BitConverter.ToInt32(bytes[4..]))
            : null;
    }

    private static List<MappedFileConsumerInfo> FindConsumers(
        HeldDirectory directory, long published, ConsumerLag lag, List<StoredCursor> problems)
    {
        List<MappedFileConsumerInfo> consumers = [];
        problems.Clear();
        foreach (StoredCursor cursor in CursorFile.ReadAll(directory))
        {
            if (cursor.Problem is not null)
                problems.Add(cursor);
            if (cursor.Offset is not { } offset)
                continue;
            string name = CursorFile.NameOf(cursor.File);
            using PlatformLock? probe = directory.Probe(StoreNames.ConsumerLock(name));
            consumers.Add(new MappedFileConsumerInfo
            {
                Name = name,
                Offset = offset,
                Lag = Math.Max(0, published - offset),
                LagMessages = lag.CountFrom(offset),
                LagTime = lag.AgeFrom(offset),
                IsAttached = probe is null,
            });
        }

        return consumers;
    }

    private static long MeasureDisk(HeldDirectory directory)
    {
        long bytes = 0;
        string[] folders =
        [
            "", StoreNames.CommitLog, StoreNames.Offsets, StoreNames.Consumers, StoreNames.Groups, StoreNames.Producers,
            StoreNames.Locks, StoreNames.Salvage,
        ];
        foreach (string folder in folders)
        {
            foreach (string name in directory.List(folder))
            {
                string path = folder.Length == 0 ? name : $"{folder}/{name}";

                // Lock files are empty. Where a lock is a file opened without sharing, even this look would conflict with it.
                if (folders.Contains(path) || (folder == StoreNames.Locks && path != StoreNames.Slots))
                    continue;
                bytes += Measure(directory, path);
            }
        }

        return bytes;
    }

    private static long Measure(HeldDirectory directory, string path)
    {
        try
        {
            using PlatformFile? file = directory.Open(path, FileOpening.Read);
            return file?.AllocatedLength ?? 0;
        }
        catch (QueueDiskException)
        {
            // One file that this user may not open, or something else of its name, is no reason to say nothing about the rest.
            return 0;
        }
    }
}
