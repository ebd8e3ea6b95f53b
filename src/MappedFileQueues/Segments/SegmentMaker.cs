using System.Globalization;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Segments;

/// <summary>
/// Creates segments with their first blocks; <see cref="BlockAllocator"/> gives them the rest.
/// <para>A maker creates a segment under a name of its own, with its full length and first blocks, syncs it, then gives it its
/// real name without replacing. The rename decides between makers; none waits for another. A maker that dies leaves a temporary
/// file, which the next opener removes once the maker's slot is free. No producer appends before the directory is flushed
/// (<see cref="EnsureDirectoryFlushed"/>): otherwise a power loss could take the name, and acknowledged data with it.</para>
/// <para>Where the system cannot allocate blocks in one step (Portable, file systems without fallocate), a segment gets all of
/// them under its temporary name: writing zeros into a file that others use would overwrite their messages. A process that finds
/// a segment of another maker there relies only on its first blocks, which every maker allocates.</para>
/// </summary>
/// <param name="directory">The store.</param>
/// <param name="window">Its mapped segments.</param>
/// <param name="control">The store's control page.</param>
/// <param name="allocatesInPlace">The system gives blocks to a file that others use.</param>
/// <param name="slotName">Names the slot of this queue's producers, for temporary files; null while it holds none. What is made
/// without a slot is made under the `open` lock, and its name says "open".</param>
/// <param name="namesLost">Called when the disk failed to take the names, before anything else happens: the next flush of them
/// would succeed.</param>
/// <param name="lookWhileWaiting">Called while waiting for the lock of renames. It throws when the queue ends, which ends the
/// wait.</param>
/// <param name="lockTimeout">How long to wait for that lock; <see cref="LockWait.Timeout"/> by default.</param>
/// <param name="lockWaits">Notes the long waits for it.</param>
/// <param name="spares">Tells whether a file is about to become free.</param>
/// <param name="throwIfReplaced">Called before a segment gets its name: it throws when another store is in the folder by now,
/// which a segment of zeros may end.</param>
internal sealed unsafe class SegmentMaker(
    HeldDirectory directory,
    SegmentWindow window,
    ControlPage control,
    bool allocatesInPlace,
    Func<string?>? slotName = null,
    Action? namesLost = null,
    Action? lookWhileWaiting = null,
    TimeSpan? lockTimeout = null,
    LockWaits? lockWaits = null,
    SpareWatch? spares = null,
    Action? throwIfReplaced = null)
{
    private const long FirstBlocksUsual = 256 * 1024;

    /// <summary>Blocks that a fresh segment gets: few, so that an empty store costs little.</summary>
    public static long FirstBlocks => PlantedFaults.FirstBlocks == 0 ? FirstBlocksUsual : PlantedFaults.FirstBlocks;

    /// <summary>
    /// A removal syncs what it records: usually within a millisecond, beside a flush of 256 MiB within 50 (measured).
    /// </summary>
    private static readonly TimeSpan SpareWaitMax = TimeSpan.FromMilliseconds(200);

    private static readonly TimeSpan LookInterval = TimeSpan.FromMilliseconds(10);

    /// <summary>The most segments made in one group.</summary>
    private const int GroupMax = 32;

    private readonly Lock _making = new();
    private readonly Lock _flushingNames = new();
    private readonly Lock _wholeLock = new();
    private readonly HashSet<long> _whole = [];
    private readonly SegmentRecycler _recycler = new(directory, window.SegmentLength, control);
    private volatile bool _allocatesInPlace = allocatesInPlace;

    /// <summary>No other maker has it, dead or alive: none takes another's temporary file for its own.</summary>
    private readonly string _id = Guid.NewGuid().ToString("N");
    private long _made;

    private readonly TimeSpan _lockTimeout = lockTimeout ?? LockWait.Timeout;

    /// <summary>
    /// Makes the segment that starts there unless it exists, with blocks for its first bytes and the directory flushed. Tiny
    /// segments are made many at once, so that one commit of the file system's journal covers all of them (measured: 2.4 ms for
    /// each segment made singly).
    /// </summary>
    /// <param name="start">Where it starts.</param>
    /// <param name="firstBlocks">How many bytes of blocks it needs.</param>
    /// <param name="look">As the maker's own, for this call alone.</param>
    /// <returns>
    /// The position up to which the segment certainly has blocks; 0 when it was removed meanwhile, as is everything before it.
    /// </returns>
    /// <exception cref="QueueCorruptException">A file with this name is too short.</exception>
    /// <exception cref="QueueDiskException">Also when the name exists and leads to no file.</exception>
    /// <exception cref="QueueInUseException">Another process keeps the lock of renames.</exception>
    public long Make(long start, long firstBlocks, Action? look = null)
    {
        while (true)
        {
            if ((TryUseExisting(start, firstBlocks, look) ?? TryMake(start, firstBlocks, look)) is { } blocks)
                return blocks;
            // Another maker was faster. Its segment may be full and removed before it is opened here, and any number of such
            // makers may follow: only the log's start tells when to give up.
            if (IsRemoved(start))
                return 0;
            ThrowIfLeadsNowhere(start);
            (lookWhileWaiting + look)?.Invoke();
        }
    }

    /// <summary>The log has begun after it.</summary>
    // P16 acquire: pairs with P16 full in SegmentTrimmer.
    private bool IsRemoved(long start) => start < SharedWord.ReadAcquire(control.LogStart);

    /// <summary>Flushes the directory entries unless that happened after the segment that starts there was made.</summary>
    public void EnsureDirectoryFlushed(long start)
    {
        // P21 acquire: the entry is on disk once the word covers it; pairs with P21 full below.
        if (SharedWord.ReadAcquire(control.DirectoryFlushed) > start)
            return;
        if (PlantedFaults.Has(PlantedFault.DirectoryNotFlushed))
            return;
        // One at a time: the kernel reports an error once. A second flush could succeed before the thread that got the error has
        // reported it, and would vouch for lost names.
        lock (_flushingNames)
            directory.FlushEntries(StoreNames.CommitLog, namesLost);

        // P21 full: after the flush; pairs with P21 acquire above.
        SharedWord.RaiseTo(control.DirectoryFlushed, start + 1);
    }

    /// <summary>Null when another maker's file has the name by now.</summary>
    private long? TryMake(long start, long firstBlocks, Action? look)
    {
        // One at a time in this process: a producer and its preparer would make the same segment, and the store would
        // take both files for a while.
        while (!_making.TryEnter(LookInterval))
            (lookWhileWaiting + look)?.Invoke();
        try
        {
            if (directory.Identify(StoreNames.Segment(start)) is not null || TryAwaitSpare(start, look))
                return null;
            int count = (int)Math.Clamp(FirstBlocks / window.SegmentLength, 1, GroupMax);
            if (!TryMakeGroup(start, count, firstBlocks, ofSpares: false, look))
                return null;
            return IsWhole(start) ? window.SegmentLength : FirstLength(firstBlocks);
        }
        finally
        {
            _making.Exit();
        }
    }

    /// <summary>Waits for a file that becomes free; true when the segment exists by now.</summary>
    private bool TryAwaitSpare(long start, Action? look)
    {
        var deadline = new Deadline(SpareWaitMax);
        while (spares?.IsDue() == true && !deadline.IsOver)
        {
            (lookWhileWaiting + look)?.Invoke();
            Thread.Sleep(1);
            if (directory.Identify(StoreNames.Segment(start)) is not null)
                return true;
        }

        return false;
    }

    /// <summary>
    /// Makes segments of spares after those that exist, so that no producer waits until their names are on disk. All of them
    /// cost one flush.
    /// </summary>
    /// <param name="start">The first start that has no segment; from the tail on there are all before it.</param>
    /// <param name="countMax">How many at most; fewer when there are fewer spares.</param>
    public void MakeOfSpares(long start, int countMax) => TryMakeGroup(start, countMax, FirstBlocks, ofSpares: true, look: null);

    /// <summary>False when another maker's file has the first name by now.</summary>
    private bool TryMakeGroup(long start, int count, long firstBlocks, bool ofSpares, Action? look)
    {
        // P22 full: a unique number for each group in this process; pairs with P22 full in SegmentMaker.TryMakeGroup.
        long number = Interlocked.Increment(ref _made);
        string suffix = string.Create(
            CultureInfo.InvariantCulture, $".{slotName?.Invoke() ?? "open"}-{_id}-{number}{WholeFile.TemporarySuffix}");
        if (PlantedFaults.Has(PlantedFault.TemporaryNameShared))
            suffix = ".open-1" + WholeFile.TemporarySuffix;
        List<string> names = [.. Enumerable.Range(0, count).Select(i => StoreNames.Segment(start + (i * window.SegmentLength)))];
        bool isOwn;
        try
        {
            MakeTemporaries(names, suffix, firstBlocks, ofSpares);
            if (names.Count == 0)
                return false;
            isOwn = RenameAll(start, names, suffix, look);
        }
        catch
        {
            foreach (string name in names)
                WholeFile.TryDelete(directory, name + suffix);
            throw;
        }

        ProtocolSteps.Reach(ProtocolStep.SegmentRenamed);
        // P21 full: before the flush; pairs with P21 acquire above.
        if (PlantedFaults.Has(PlantedFault.RecycledNameNotFlushed) && names.All(IsRecycled))
            SharedWord.RaiseTo(control.DirectoryFlushed, start + ((names.Count - 1) * window.SegmentLength) + 1);
        EnsureDirectoryFlushed(start + ((names.Count - 1) * window.SegmentLength));
        return isOwn;
    }

    private bool IsRecycled(string name)
    {
        using PlatformFile? file = directory.Open(name, FileOpening.Read);
        return file is not null && file.Length > window.SegmentLength;
    }

    /// <summary>Of spares, or new; of spares alone, the names that are left over are removed from the list.</summary>
    private void MakeTemporaries(List<string> names, string suffix, long firstBlocks, bool ofSpares)
    {
        var files = new List<PlatformFile>(names.Count);
        try
        {
            for (int i = 0; i < names.Count; i++)
            {
                string name = names[i];
                if (_allocatesInPlace && _recycler.TryTakeSpare(name + suffix, FirstLength(firstBlocks)))
                    continue;
                if (ofSpares)
                {
                    names.RemoveRange(i, names.Count - i);
                    break;
                }

                PlatformFile file = PlantedFaults.Has(PlantedFault.TemporaryNameShared)
                    ? directory.Open(name + suffix, FileOpening.ReadWriteOrCreate)!
                    : WholeFile.Create(directory, name + suffix);
                files.Add(file);
                file.SetLength(window.SegmentLength);
                if (!TryAllocate(file, 0, FirstLength(firstBlocks)))
                    file.Allocate(0, window.SegmentLength);
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
    /// Renames the group. A maker that cannot allocate in place raises the bound over its whole segments before it releases the
    /// lock, so that a process that finds such a segment also finds the bound raised. False when another maker's file has the
    /// first name.
    /// </summary>
    private bool RenameAll(long start, List<string> names, string suffix, Action? look)
    {
        using PlatformLock prepare = TakePrepareLock(look);
        throwIfReplaced?.Invoke();
        bool isFirstOwn = false;
        for (int i = 0; i < names.Count; i++)
        {
            bool isOwn = directory.RenameWithoutReplacing(names[i] + suffix, names[i]);
            if (!isOwn)
                directory.Delete(names[i] + suffix);
            else if (!_allocatesInPlace)
                NoteWhole(start + (i * window.SegmentLength));
            isFirstOwn |= isOwn && i == 0;
        }

        return isFirstOwn;
    }

    private void NoteWhole(long start)
    {
        // P20 acquire: pairs with P20 full in BlockAllocator.
        long allocated = SharedWord.ReadAcquire(control.Allocated);
        lock (_wholeLock)
        {
            _whole.RemoveWhere(old => old + window.SegmentLength <= allocated);
            _whole.Add(start);
        }

        if (allocated >= start)
            // P20 full: pairs with P20 acquire in BlockAllocator.
            SharedWord.RaiseTo(control.Allocated, start + window.SegmentLength);
    }

    /// <summary>The system gives blocks to a file that others use.</summary>
    public bool AllocatesInPlace => _allocatesInPlace;

    /// <summary>This maker has given it all of its blocks.</summary>
    public bool IsWhole(long start)
    {
        lock (_wholeLock)
            return _whole.Contains(start);
    }

    /// <summary>Zeroes a recycled segment up to a position; false while another process stands still over that.</summary>
    public bool TryZero(SegmentMapping mapping, long end, Action? look) =>
        _recycler.TryZero(mapping, end, lookWhileWaiting + look);

    /// <summary>Gives blocks to a file that others may use; false where that cannot be done.</summary>
    public bool TryAllocate(PlatformFile file, long position, long length)
    {
        if (_allocatesInPlace && file.TryAllocate(position, length))
            return true;
        _allocatesInPlace = false;
        return false;
    }

    /// <summary>
    /// Linux renames without replacing in one step, so its processes share this lock and never wait for each other. Portable
    /// checks, then renames: it holds the lock exclusively, so neither another Portable process nor a Linux one can come in
    /// between. The same holds where blocks cannot be allocated in place, to protect the bound.
    /// </summary>
    private PlatformLock TakePrepareLock(Action? look)
    {
        LockKind kind = _allocatesInPlace ? LockKind.Shared : LockKind.Exclusive;
        try
        {
            return LockWait.TryTake(directory, StoreNames.PrepareLock, kind, _lockTimeout, lookWhileWaiting + look, lockWaits)
                ?? throw directory.InUse(
                    StoreNames.PrepareLock, "Another process has been making a segment for too long",
                    "Check that process; nothing was appended.", waited: _lockTimeout);
        }
        catch (QueueDiskException) when (directory.IsStillInPlace && directory.Identify(StoreNames.AttachedLock) is null)
        {
            throw MetaLock.LocksRemoved(directory);
        }
    }

    /// <summary>Null when there is no such segment; otherwise the position up to which it certainly has blocks.</summary>
    private long? TryUseExisting(long start, long firstBlocks, Action? look)
    {
        using PlatformFile? existing = directory.Open(StoreNames.Segment(start), FileOpening.ReadWrite);
        if (existing is null)
            return null;
        long existingLength = existing.Length;
        if (existingLength < window.SegmentLength)
            throw TooShort(start, existingLength);
        long length = FirstLength(firstBlocks);
        if (TryAllocate(existing, 0, length))
            return length;
        // Its maker may be about to raise the bound.
        using (TakePrepareLock(look))
            return IsWhole(start) ? window.SegmentLength : Math.Min(length, FirstBlocks);
    }

    /// <summary>
    /// The directory lists the name before and after no file was found by it, and retention has not removed it meanwhile.
    /// </summary>
    private void ThrowIfLeadsNowhere(long start)
    {
        string file = StoreNames.Segment(start);
        bool wasListed = IsListed(start);
        using PlatformFile? found = directory.Open(file, FileOpening.Read);
        if (!wasListed || found is not null || IsRemoved(start) || !IsListed(start))
            return;
        throw new QueueDiskException($"The name of the next segment exists but leads to no file; it may be a broken link: "
            + $"file={file}, offset={start}, path={directory.Path}. Move it away, or restore its target.",
            DiskErrors.ENOENT, file);
    }

    private bool IsListed(long start) => directory.List(StoreNames.CommitLog)
        .Any(name => StoreNames.TryParseSegment(name, out long listed) && listed == start);

    private QueueCorruptException TooShort(long start, long length)
    {
        string file = StoreNames.Segment(start);
        return new QueueCorruptException($"A file with the name of the next segment is too short: file={file}, "
            + $"length={length}, expected={window.SegmentLength}, offset={start}, path={directory.Path}."
            + " What is before it can be read. Restore the file, or move it away if it never held messages.", file, start);
    }

    /// <summary>How many bytes of blocks a segment gets at first, where so many are wanted.</summary>
    public long FirstLength(long wanted) => Math.Min(Math.Max(wanted, FirstBlocks), window.SegmentLength);
}
