using MappedFileQueues.Format;
using MappedFileQueues.Log.Flushing;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Inspection;

/// <summary>A claim that is open now: it stops every reader at its place.</summary>
internal readonly record struct OpenClaimStatus(long Offset, int Length, int Slot, int ProcessId);

/// <summary>A consumer's cursor.</summary>
internal readonly record struct ConsumerStatus(string Name, long Offset, bool IsAttached);

/// <summary>
/// The state of a store as its files show it, gathered with reads alone: positioned reads of the headers, no mapping that
/// would have to be kept from disappearing, no lock but probes.
/// </summary>
internal sealed unsafe record StoreStatus
{
    public required string Path { get; init; }

    public required StoreMeta Meta { get; init; }

    public required long Epoch { get; init; }

    public required long First { get; init; }

    public required long PublishedOffset { get; init; }

    public required long TailOffset { get; init; }

    public required long ConfirmedOffset { get; init; }

    public required long RepairCount { get; init; }

    public required bool IsPoisoned { get; init; }

    /// <summary>Why flushes fail; null when they do not, as far as anybody has said.</summary>
    public required FlushFailureText? FlushFailure { get; init; }

    public required int SegmentCount { get; init; }

    public required long BytesOnDisk { get; init; }

    public required IReadOnlyList<ConsumerStatus> Consumers { get; init; }

    public required IReadOnlyList<OpenClaimStatus> OpenClaims { get; init; }

    public required IReadOnlyList<int> AttachedProcesses { get; init; }

    public required IReadOnlyList<int> ProducerProcesses { get; init; }

    public static StoreStatus Gather(HeldDirectory directory, StoreMeta meta, ControlPage? control)
    {
        List<long> segments = [];
        foreach (string name in directory.List(StoreNames.CommitLog))
        {
            if (StoreNames.TryParseSegment(name, out long start) && start <= LogLimits.OffsetMax)
                segments.Add(start);
        }

        long first = OldestOffset.Find(directory, meta, control);
        CheckpointRecord? checkpoint = new CheckpointFile(directory, meta.StoreId).Read();
        // While a lone opener writes the page anew the word is zero for a moment.
        // P18 acquire: pairs with P18 full in FlushRound.
        long confirmed = Math.Max(checkpoint?.Offset ?? 0, control is null ? 0 : SharedWord.ReadAcquire(control.Confirmed));
        List<OpenClaimStatus> claims = [];
        (long published, long tail) = Walk(
            directory, meta, Math.Max(first, checkpoint?.Offset ?? 0), segments.DefaultIfEmpty().Max(), claims);
        // P11 acquire: pairs with P11 full in WakeSignal.
        bool isPoisoned = control is not null && (SharedWord.ReadAcquire(control.WaiterFlag) & ControlLayout.PoisonBit) != 0;
        return new StoreStatus
        {
            Path = directory.Path,
            Meta = meta,
            Epoch = Math.Max(control?.Epoch ?? 0, checkpoint?.Epoch ?? 0),
            First = first,
            PublishedOffset = published,
            TailOffset = tail,
            ConfirmedOffset = confirmed,
            // P13 acquire: pairs with P13 full in HoleRepair.
            RepairCount = control is null ? 0 : (long)SharedWord.ReadAcquire(control.RepairCount),
            IsPoisoned = isPoisoned || directory.Identify(StoreNames.Poison) is not null,
            FlushFailure = control?.ReadFlushFailure(),
            SegmentCount = segments.Count,
            BytesOnDisk = MeasureDisk(directory),
            Consumers = FindConsumers(directory),
            OpenClaims = claims,
            AttachedProcesses = directory.LockHolders(StoreNames.AttachedLock),
            ProducerProcesses = directory.LockHolders(StoreNames.ProducersLock),
        };
    }

    /// <summary>Ends with the last segment that was there at the beginning: a fast producer is not chased for ever.</summary>
    private static (long Published, long Tail) Walk(
        HeldDirectory directory, StoreMeta meta, long from, long lastSegment, List<OpenClaimStatus> claims)
    {
        var checksum = new FrameChecksum(meta.StoreId);
        long offset = from;
        long published = -1;
        while (true)
        {
            long start = offset - (offset % meta.SegmentLength);
            using PlatformFile? file = start > lastSegment ? null : directory.Open(StoreNames.Segment(start), FileOpening.Read);
            if (file is null)
                break;
            var scanner = new SegmentScanner(file, start, meta.SegmentLength, checksum);
            while (offset - start < meta.SegmentLength)
            {
                ulong header = scanner.HeaderAt(offset - start);
                if (header == 0 || !FrameHeader.IsPlausible(header, meta.SegmentLength - (offset - start)))
                    return (published < 0 ? offset : published, offset);
                if (FrameHeader.State(header) == FrameState.Claimed)
                {
                    published = published < 0 ? offset : published;
                    claims.Add(Describe(directory, header, offset));
                }

                offset += FrameHeader.FrameLength(FrameHeader.Length(header));
            }
        }

        return (published < 0 ? offset : published, offset);
    }

    private static OpenClaimStatus Describe(HeldDirectory directory, ulong header, long offset)
    {
        int slot = SlotLayout.Slot(FrameHeader.HighHalf(header));
        int processId = 0;
        using PlatformFile? slots = directory.Open(StoreNames.Slots, FileOpening.Read);
        if (slots is not null)
        {
            Span<byte> bytes = stackalloc byte[4];
            if (slots.ReadAt(bytes, SlotLayout.EntryAt(slot) + 4) == 4)
                processId = BitConverter.ToInt32(bytes);
        }

        return new OpenClaimStatus(offset, FrameHeader.Length(header), slot, processId);
    }

    private static List<ConsumerStatus> FindConsumers(HeldDirectory directory)
    {
        List<ConsumerStatus> consumers = [];
        IEnumerable<string> names = directory.List(StoreNames.Consumers)
            .Where(name => name.EndsWith(".cursor", StringComparison.Ordinal))
            .Select(name => name[..^".cursor".Length]).Prepend("");
        Span<byte> word = stackalloc byte[8];
        foreach (string name in names)
        {
            using PlatformFile? file = directory.Open(StoreNames.Cursor(name), FileOpening.Read);
            if (file is null || file.ReadAt(word, 0) < 8 || !CursorWord.IsValid(BitConverter.ToUInt64(word)))
                continue;
            using PlatformLock? probe = directory.Probe(StoreNames.ConsumerLock(name));
            consumers.Add(new ConsumerStatus(name, CursorWord.Offset(BitConverter.ToUInt64(word)), probe is null));
        }

        return consumers;
    }

    private static long MeasureDisk(HeldDirectory directory)
    {
        long bytes = 0;
        string[] folders =
        [
            "", StoreNames.CommitLog, StoreNames.Offsets, StoreNames.Consumers, StoreNames.Locks, StoreNames.Salvage,
        ];
        foreach (string folder in folders)
        {
            foreach (string name in directory.List(folder))
            {
                string path = folder.Length == 0 ? name : $"{folder}/{name}";

                // Lock files are empty, and where locks are open files that nobody shares, even this look would clash with them.
                if (folders.Contains(path) || (folder == StoreNames.Locks && path != StoreNames.Slots))
                    continue;
                using PlatformFile? file = directory.Open(path, FileOpening.Read);
                bytes += file?.AllocatedLength ?? 0;
            }
        }

        return bytes;
    }
}
