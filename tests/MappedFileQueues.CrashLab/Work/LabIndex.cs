using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Index;
using MappedFileQueues.Log.Index;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;

namespace MappedFileQueues.CrashLab.Work;

/// <summary>
/// The index of the laboratory's stores: steps so small that there are entries, a ring so small that it has to be widened, what
/// it may never say, and what it must not be believed.
/// </summary>
internal static class LabIndex
{
    private const int StepBits = 9;
    private const int CountBits = 5;
    private const long Nonsense = 777_000;
    private const int QuestionCount = 8;

    /// <summary>Begins a series where there is no index yet, as the first flush would.</summary>
    public static void Begin(OperatingSystemServices os)
    {
        using HeldDirectory directory = os.OpenDirectory(SimDisk.Root, create: false, mode: null)!;
        StoreMeta meta = StoreMetaFile.Read(directory)!;
        if (directory.Identify(StoreNames.Index) is null && CheckpointFile.ReadLogStart(directory, meta) == 0)
            IndexFile.TryBegin(directory, meta, new IndexPage(meta.StoreId, 1, 0, StepBits, CountBits))?.Dispose();
    }

    /// <summary>
    /// What is wrong with it at a moment: it speaks of messages that are not on disk; null when nothing is. After a cut the
    /// control page may be older than the index, until somebody has recovered the store.
    /// </summary>
    public static string? FindFault(DiskPicture disk, string boot)
    {
        if (Content(disk, StoreNames.Control) is not { } control || Content(disk, StoreNames.Index) is not { } index
            || Content(disk, StoreNames.Meta) is not { Length: StoreMeta.Length } page)
            return null;
        ControlWords words = ControlWords.Of(control);
        StoreMeta meta = StoreMeta.Parse(page, StoreNames.Meta);
        if (words.RecoveredIn != Guid.Parse(boot) || IndexPage.Parse(index, meta.StoreId) is not { } found)
            return null;
        // What was flushed before the last process that was alone came counts too.
        long flushed = Math.Max(words.Confirmed, BitConverter.ToInt64(control, ControlLayout.FlushedBelowAt));
        Array.Resize(ref index, Math.Max(index.Length, IndexPage.Length) + IndexEntry.Length);
        if (IndexEntry.Parse(index.AsSpan(IndexPage.CountedAt), found.Series, meta.LogId)?.Offset > flushed)
            return $"The index counts messages beyond what is on disk, which is all before {flushed}";
        for (int at = IndexPage.Length; at + IndexEntry.Length <= index.Length; at += IndexEntry.Length)
        {
            if (IndexEntry.Parse(index.AsSpan(at), found.Series, meta.LogId)?.Offset is { } offset && offset >= flushed)
                return $"The index has an entry for {offset}, and what is on disk is all before {flushed}";
        }

        return null;
    }

    /// <summary>
    /// Writes what an old page of the file may hold: an entry for a place where no frame begins any more, and one of a series
    /// that counted from elsewhere.
    /// </summary>
    public static void Forge(OperatingSystemServices os, string path, IReadOnlyList<ReadMessage> messages, Random random)
    {
        if (messages.Count == 0)
            return;
        using HeldDirectory directory = os.OpenDirectory(path, create: false, mode: null)!;
        StoreMeta meta = StoreMetaFile.Read(directory)!;
        IndexPage page;
        using (IndexFile? index = IndexFile.TryOpen(directory, meta))
        {
            if (index is null)
                return;
            page = index.Page;
        }

        using PlatformFile file = directory.Open(StoreNames.Index, FileOpening.ReadWrite)!;
        ReadMessage stale = messages[random.Next(messages.Count)];
        if (stale.Bytes.Length >= FrameHeader.Size)
            Write(stale.Offset + FrameHeader.Size, page.Series);
        Write(messages[random.Next(messages.Count)].Offset, page.Series + 1);

        void Write(long offset, uint series)
        {
            byte[] bytes = new byte[IndexEntry.Length];
            new IndexEntry(offset, Nonsense, IndexEntry.NoTime).Write(bytes, series, meta.LogId);
            file.WriteAt(bytes, page.PositionOf(page.StepOf(offset)));
        }
    }

    /// <summary>Numbers are told from the first message on, whatever the index is.</summary>
    public static void Check(MappedFileQueue queue, IReadOnlyList<ReadMessage> messages, Random random)
    {
        if (messages.Count == 0)
            return;
        long first = queue.FindNumber(messages[0].Offset);
        for (int i = 0; i < QuestionCount; i++)
        {
            int which = random.Next(messages.Count);
            long offset = messages[which].Offset;
            if (queue.FindNumber(offset) is var number && number != first + which)
                throw new LabViolation($"Message {which} of those read, at {offset}, has the number {number}; the first {first}");
            if (queue.FindOffset(first + which) is var found && found != offset)
                throw new LabViolation($"The message of number {first + which} is at {offset}, and is found at {found}");
        }
    }

    private static byte[]? Content(DiskPicture disk, string name) =>
        disk.Names.TryGetValue(name, out SimFile? file) ? disk.Files[file].Content : null;
}
