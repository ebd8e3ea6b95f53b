using System.Globalization;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Segments;

/// <summary>
/// Makes segments and gives them blocks, so that the append path never stores into a hole: a hole on a full disk kills the
/// process, an allocation on a full disk is an exception.
/// <para>A segment is made under a name of its maker's own, with its full length and first blocks, synced, then given its real
/// name without replacing: the rename decides between makers, nobody waits for another. A maker that dies leaves a temporary
/// file, which the next opener removes once the maker's slot is free. Nobody appends before the directory is flushed
/// (<see cref="EnsureDirectoryFlushed"/>): otherwise a power cut takes the name, and acknowledged data with it.</para>
/// </summary>
internal sealed unsafe class SegmentMaker(
    StoreDirectory directory, SegmentWindow window, ControlPage control, bool allocatesInPlace)
{
    /// <summary>Blocks that a fresh segment gets: small, so that an empty store costs little.</summary>
    public const long FirstBlocks = 256 * 1024;

    /// <summary>The largest single allocation: 1 MiB takes about 1 ms with touching, so nobody waits long for one.</summary>
    public const long StepMax = 1024 * 1024;

    /// <summary>The most segments that are made at once.</summary>
    private const int GroupMax = 32;

    private long _made;

    /// <summary>Names temporary files; the slot of the producers of this queue, or "open" under the `open` lock.</summary>
    public string Owner { get; set; } = "open";

    /// <summary>False on Portable, where a segment gets all its blocks when it is made.</summary>
    public bool AllocatesInPlace => allocatesInPlace;

    /// <summary>
    /// Sees to it that all blocks up to <paramref name="target"/> exist, making segments as needed, and raises
    /// <see cref="ControlPage.Allocated"/>. Safe beside others that do the same. A full disk throws <see
    /// cref="QueueDiskException"/>.
    /// </summary>
    public void EnsureAllocated(long target)
    {
        while (true)
        {
            // P20 acquire: whoever raised the bound has finished the allocation; pairs with P20 full below.
            long allocated = SharedWord.ReadAcquire(control.Allocated);
            if (allocated >= target)
                return;
            long start = window.StartOf(allocated);
            long position = allocated - start;
            long end = start + window.SegmentLength;
            long next = Math.Min(end, allocated + Math.Clamp(RoundUp(target) - allocated, FirstBlocks, StepMax));
            if (position == 0)
            {
                Make(start, next - start);
                next = allocatesInPlace ? next : end;
            }
            else
            {
                Extend(start, position, next - allocated);
            }

            // P20 full: the blocks exist before anybody stores into them; pairs with P20 acquire above.
            SharedWord.RaiseTo(control.Allocated, next);
        }
    }

    /// <summary>
    /// Makes the segment that starts there unless it exists, with blocks for its first bytes, and the directory flushed. Tiny
    /// segments are made many at once: the file system's journal is committed once for all of them (measured: 2.4 ms a segment
    /// singly).
    /// </summary>
    public void Make(long start, long firstBlocks)
    {
        using (PlatformFile? existing = directory.Open(StoreNames.Segment(start), FileOpening.ReadWrite))
        {
            if (existing is not null)
            {
                long length = Math.Min(Math.Max(firstBlocks, FirstBlocks), Math.Min(existing.Length, window.SegmentLength));
                if (allocatesInPlace && length > 0)
                    existing.Allocate(0, length);
                return;
            }
        }

        int count = (int)Math.Clamp(FirstBlocks / window.SegmentLength, 1, GroupMax);
        // P22 full: a number of its own for each group, in this process; pairs with P22 full in SegmentMaker.Make.
        long number = Interlocked.Increment(ref _made);
        string suffix = string.Create(CultureInfo.InvariantCulture, $".{Owner}-{number}{StoreNames.TemporarySuffix}");
        List<string> names = [.. Enumerable.Range(0, count).Select(i => StoreNames.Segment(start + (i * window.SegmentLength)))];
        try
        {
            MakeTemporaries(names, suffix, firstBlocks);
            using PlatformLock prepare = TakePrepareLock();
            foreach (string name in names)
            {
                if (!directory.RenameWithoutReplacing(name + suffix, name))
                    directory.Delete(name + suffix);
            }
        }
        catch
        {
            foreach (string name in names)
                directory.Delete(name + suffix);
            throw;
        }

        ProtocolSteps.Reach(ProtocolStep.SegmentRenamed);
        EnsureDirectoryFlushed(start + ((count - 1) * window.SegmentLength));
    }

    /// <summary>Flushes the directory entries unless that was done since the segment that starts there was made.</summary>
    public void EnsureDirectoryFlushed(long start)
    {
        // P21 acquire: the entry is on disk once the word covers it; pairs with P21 full below.
        if (SharedWord.ReadAcquire(control.DirectoryFlushed) > start)
            return;
        directory.FlushEntries(StoreNames.CommitLog);
        // P21 full: after the flush; pairs with P21 acquire above.
        SharedWord.RaiseTo(control.DirectoryFlushed, start + 1);
    }

    private void MakeTemporaries(List<string> names, string suffix, long firstBlocks)
    {
        var files = new List<PlatformFile>(names.Count);
        try
        {
            foreach (string name in names)
            {
                PlatformFile file = directory.Open(name + suffix, FileOpening.ReadWriteOrCreate)!;
                files.Add(file);
                file.SetLength(window.SegmentLength);
                file.Allocate(0, allocatesInPlace
                    ? Math.Min(window.SegmentLength, Math.Max(firstBlocks, FirstBlocks))
                    : window.SegmentLength);
            }

            ProtocolSteps.Reach(ProtocolStep.TemporaryMade);
            foreach (PlatformFile file in files)
                file.FlushData();
            ProtocolSteps.Reach(ProtocolStep.TemporaryFlushed);
        }
        finally
        {
            foreach (PlatformFile file in files)
                file.Dispose();
        }
    }

    /// <summary>
    /// Linux renames without replacing in one step, so its processes share this lock and never wait for each other. Portable
    /// has to look and then rename: it holds the lock alone, and neither another Portable process nor a Linux one can come in
    /// between.
    /// </summary>
    private PlatformLock TakePrepareLock()
    {
        LockKind kind = allocatesInPlace ? LockKind.Shared : LockKind.Exclusive;
        while (true)
        {
            if (directory.TryLock(StoreNames.PrepareLock, kind) is { } taken)
                return taken;
            Thread.Yield();
        }
    }

    private void Extend(long start, long position, long length)
    {
        if (!allocatesInPlace)
            throw new InvalidOperationException("A segment cannot grow here; the appender rolls instead.");
        SegmentMapping mapping = window.TryAcquire(start)
            ?? throw new QueueCorruptException($"A segment is missing: offset={start + position}, "
                + $"file={StoreNames.Segment(start)}. What lies before it can be read; restore the file.",
                StoreNames.Segment(start), start + position);
        try
        {
            mapping.File.Allocate(position, length);
        }
        finally
        {
            window.Release(mapping);
        }
    }

    private static long RoundUp(long offset) => (offset + 4095) & ~4095L;
}
