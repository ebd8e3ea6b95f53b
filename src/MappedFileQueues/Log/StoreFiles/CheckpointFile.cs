using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// `offset/producer.checkpoint`: two slots on two pages; the newer valid one counts. A slot is synced before the other is
/// reused, so a power loss in the middle of a write leaves the older record. Written under the flush lock, or by a lone opener.
/// <para>`offset/log-start` has the same form: everything before its offset was removed. Written under `open`. Segments are
/// removed without a flush, and their files are used again: after a power loss the checkpoint may be before this offset, and
/// what is there is no longer the log.</para>
/// </summary>
internal sealed class CheckpointFile(HeldDirectory directory, Guid storeId, string name = StoreNames.Checkpoint) : IDisposable
{
    /// <summary>Stays open from the first record on, so that a process that runs out of descriptors can still flush.</summary>
    private PlatformFile? _file;

    /// <summary>
    /// The newer valid record. Null when the file is missing or both slots are bad: then the log is read from its first segment.
    /// </summary>
    public CheckpointRecord? Read()
    {
        using PlatformFile? file = directory.Open(name, FileOpening.Read);
        return file is null ? null : ReadNewest(file);
    }

    /// <summary>Creates the file with its blocks, so that a full disk cannot fail a later checkpoint.</summary>
    public void Create(Guid bootId)
    {
        using PlatformFile file = directory.Open(name, FileOpening.ReadWriteOrCreate)!;
        file.WriteAt(new byte[2 * CheckpointRecord.SlotDistance], 0);
        file.WriteAt(new CheckpointRecord(0, 0, 0, bootId).ToBytes(storeId), 0);
        file.FlushData();
    }

    /// <summary>The marks of time of the newer valid record.</summary>
    public List<TimeMark> ReadMarks()
    {
        using PlatformFile? file = directory.Open(name, FileOpening.Read);
        return file is null || ReadNewest(file) is not { } newest ? [] : ReadMarks(file, newest);
    }

    /// <summary>Writes the next record and syncs it. The caller has synced the offset's data before.</summary>
    /// <param name="offset">Everything before it is on disk and whole.</param>
    /// <param name="epoch">The epoch.</param>
    /// <param name="bootId">The boot.</param>
    /// <param name="now">The time, for a mark; null for a file that has none.</param>
    public void Write(long offset, long epoch, Guid bootId, DateTimeOffset? now = null)
    {
        PlatformFile file = _file ??= directory.Open(name, FileOpening.ReadWriteOrCreate)!;
        CheckpointRecord? newest = ReadNewest(file);
        bool isCovered = newest is not null && newest.Offset >= offset && newest.Epoch == epoch && newest.BootId == bootId;
        if (!isCovered)
        {
            var record = new CheckpointRecord(offset, epoch, (newest?.Sequence ?? 0) + 1, bootId);
            if (file.Length < 2 * CheckpointRecord.SlotDistance)
                file.WriteAt(new byte[2 * CheckpointRecord.SlotDistance], 0);
            byte[] bytes = record.ToBytes(storeId);
            if (now is { } time)
            {
                List<TimeMark> marks = newest is null ? [] : ReadMarks(file, newest);
                TimeMarks.Add(marks, new TimeMark(offset, time.ToUnixTimeMilliseconds()));
                Array.Resize(ref bytes, CheckpointRecord.SlotDistance);
                TimeMarks.Write(bytes, marks);
            }

            file.WriteAt(bytes, record.Position);
        }

        // Also when a record covers it already: its writer may have died before the sync.
        file.Sync();
    }

    /// <summary>
    /// Syncs the file if it exists: a record that a leader wrote before it died counts for the opener that reads it.
    /// </summary>
    public void Sync() => directory.Sync(name);

    /// <summary>After a recovery: writes the new epoch to both slots, and syncs one before it writes the other.</summary>
    public void WriteBoth(long offset, long epoch, Guid bootId)
    {
        long sequence = Read()?.Sequence ?? 0;
        using PlatformFile file = directory.Open(name, FileOpening.ReadWriteOrCreate)!;
        if (file.Length < 2 * CheckpointRecord.SlotDistance)
            file.SetLength(2 * CheckpointRecord.SlotDistance);
        for (int i = 1; i <= 2; i++)
        {
            var record = new CheckpointRecord(offset, epoch, sequence + i, bootId);
            file.WriteAt(record.ToBytes(storeId), record.Position);
            file.Sync();
            ProtocolSteps.Reach(ProtocolStep.CheckpointSlotWritten);
        }
    }

    /// <summary>The removed part of the log, as `offset/log-start` tells it; 0 when nothing was removed.</summary>
    public static long ReadLogStart(HeldDirectory directory, StoreMeta meta)
    {
        using var file = new CheckpointFile(directory, meta.StoreId, StoreNames.LogStart);
        long offset = file.Read()?.Offset ?? 0;
        return offset % meta.SegmentLength == 0 ? offset : 0;
    }

    /// <summary>Records that the log begins there, whatever is before it. Survives a power loss when it returns.</summary>
    public static void RecordLogStart(HeldDirectory directory, StoreMeta meta, long logStart, long epoch, Guid bootId)
    {
        using var file = new CheckpointFile(directory, meta.StoreId, StoreNames.LogStart);
        if (directory.Identify(StoreNames.LogStart) is null)
            file.Create(bootId);
        directory.FlushEntries(StoreNames.Offsets);
        file.Write(logStart, epoch, bootId);
    }

    public void Dispose() => _file?.Dispose();

    private static List<TimeMark> ReadMarks(PlatformFile file, CheckpointRecord record)
    {
        byte[] page = new byte[CheckpointRecord.SlotDistance];
        return TimeMarks.Parse(page.AsSpan(0, file.ReadAt(page, record.Position)), record.Offset);
    }

    private CheckpointRecord? ReadNewest(PlatformFile file)
    {
        CheckpointRecord? newest = null;
        Span<byte> bytes = stackalloc byte[CheckpointRecord.Length];
        for (int slot = 0; slot < 2; slot++)
        {
            int read = file.ReadAt(bytes, slot * CheckpointRecord.SlotDistance);
            CheckpointRecord? record = CheckpointRecord.Parse(bytes[..read], storeId);
            if (record is not null && (newest is null || record.Sequence > newest.Sequence))
                newest = record;
        }

        return newest;
    }
}
