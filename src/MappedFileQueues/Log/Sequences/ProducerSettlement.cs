using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Sequences;

/// <summary>
/// What producers with an id need before segments go: their files are all that is left of messages that were removed. In normal
/// running a producer's file is ahead of every removal, and it is synced, and nothing is read.
/// </summary>
internal static class ProducerSettlement
{
    /// <summary>One that is behind holds two descriptors until the log is read, so thousands of them come in turns.</summary>
    private const int BehindMax = 128;

    /// <summary>
    /// Brings the files of all producers up to an offset below which everything is about to be removed. The caller has recorded
    /// that on disk: what goes need not be durable, and a power loss before the record would leave a sequence above the log. A
    /// producer that nobody holds is read one segment further, but not beyond the durable offset: who wants to open the store
    /// waits meanwhile. It has no message after the segments that there are, and when its file has come so far, removals pass it
    /// over.
    /// </summary>
    /// <param name="directory">The store; its `open` lock is held.</param>
    /// <param name="meta">Its meta page.</param>
    /// <param name="limit">Everything before it goes.</param>
    /// <param name="durable">The durable offset.</param>
    public static void Settle(HeldDirectory directory, StoreMeta meta, long limit, long durable)
    {
        if (PlantedFaults.Has(PlantedFault.SequenceNotSettled))
            return;
        foreach (string[] names in ProducerFile.Names(directory).Chunk(BehindMax))
            Settle(directory, meta, limit, durable, names);
    }

    /// <summary>The same for a store that is attached.</summary>
    public static void Settle(LogStore store, long limit) =>
        Settle(store.Directory, store.Meta, limit, store.ConfirmedOffset);

    private static void Settle(HeldDirectory directory, StoreMeta meta, long limit, long durable, string[] names)
    {
        List<(ProducerFile File, PlatformLock? Held)> behind = [];
        try
        {
            foreach (string name in names)
            {
                ProducerFile? file = TryOpen(directory, meta, name);
                if (file is null)
                    continue;
                if (file.Known.Offset >= Math.Min(limit, file.End))
                {
                    using (file)
                    {
                        // What it knows of may be in memory only, and is about to be all that is left. One that is closed was
                        // synced when it was.
                        if (file.End == long.MaxValue)
                            file.Sync();
                    }
                }
                else
                    behind.Add((file, directory.TryLock(StoreNames.ProducerLock(ProducerFile.IdOf(name)), LockKind.Exclusive)));
            }

            durable = Math.Min(durable, limit + meta.SegmentLength);
            if (behind.Count > 0)
                Settle(directory, meta, behind, limit, durable);
        }
        finally
        {
            foreach ((ProducerFile file, PlatformLock? held) in behind)
            {
                file.Dispose();
                held?.Dispose();
            }
        }
    }

    /// <summary>
    /// After a power loss cut the log at an offset, and in a copy: forgets what producers knew of messages after it. Their files
    /// speak of durable messages alone, so there are none unless the disk lied, or the copy was made while processes wrote.
    /// </summary>
    public static void ForgetBeyond(HeldDirectory directory, StoreMeta meta, long tail)
    {
        foreach (string name in ProducerFile.Names(directory))
        {
            using ProducerFile? file = TryOpen(directory, meta, name);
            if (file is null)
                continue;
            if (file.Known.Offset <= tail)
            {
                // A file that was copied before the log: the producer may have had messages after that.
                file.Close(0);
                file.Sync();
                continue;
            }

            using PlatformFile page = directory.Open(name, FileOpening.ReadWrite)!;
            page.WriteAt(ProducerLayout.Make(file.Id, meta.StoreId, 0, 0), 0);
            page.Sync();
        }
    }

    /// <summary>What the files of all producers know.</summary>
    public static List<ProducerPage> Read(HeldDirectory directory, StoreMeta meta)
    {
        List<ProducerPage> pages = [];
        foreach (string name in ProducerFile.Names(directory))
        {
            using ProducerFile? file = TryOpen(directory, meta, name);
            if (file is not null)
            {
                // The offset is read before its sequence.
                (ulong sequence, long offset) = file.Known;
                pages.Add(new ProducerPage(name, file.Id, sequence, offset));
            }
        }

        return pages;
    }

    /// <summary>Every message that is published is before it.</summary>
    private static long FindEnd(HeldDirectory directory, StoreMeta meta) =>
        LogStartSearch.List(directory, meta) is { Count: > 0 } segments ? segments.Max + meta.SegmentLength : long.MaxValue;

    private static void Settle(
        HeldDirectory directory, StoreMeta meta, List<(ProducerFile File, PlatformLock? Held)> behind, long limit, long durable)
    {
        long end = FindEnd(directory, meta);
        Dictionary<ulong, ulong> highest = [];
        foreach ((ProducerFile file, _) in behind)
            highest[file.Id] = 0;
        long to = behind.Exists(producer => producer.Held is not null) ? Math.Max(limit, durable) : limit;
        new SequenceScan(directory, meta).Run([.. behind.Select(producer => producer.File.Known.Offset)], to, highest);
        foreach ((ProducerFile file, PlatformLock? held) in behind)
        {
            // The end that it had: one that moved on with the log would never be reached.
            long closed = Math.Min(file.End, end);
            // What is raised and not synced must not count as closed, should this process die.
            if (held is not null)
                file.Close(0);
            file.Raise(highest[file.Id], to);
            file.Sync();
            if (held is not null)
                file.Close(closed);
        }
    }

    /// <summary>
    /// One that cannot be opened must not stop a removal: its messages may then come twice. A lack of descriptors or memory ends.
    /// </summary>
    private static ProducerFile? TryOpen(HeldDirectory directory, StoreMeta meta, string name)
    {
        try
        {
            return ProducerFile.TryOpen(directory, meta, name);
        }
        catch (Exception error) when (error is QueueCorruptException
            || (error is QueueDiskException { MayHaveLostData: false } disk && !DiskErrors.IsShortage(disk.Errno)))
        {
            return null;
        }
    }
}

/// <summary>What the file of a producer knows.</summary>
/// <param name="Name">The file's name.</param>
/// <param name="Id">The id that its messages carry.</param>
/// <param name="Sequence">No message before the offset has a higher one.</param>
/// <param name="Offset">The offset.</param>
internal sealed record ProducerPage(string Name, ulong Id, ulong Sequence, long Offset);
