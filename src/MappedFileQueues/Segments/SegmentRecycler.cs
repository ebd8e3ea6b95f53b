using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Segments;

/// <summary>
/// Makes new segments of the files of removed ones. Their pages are in memory and their blocks are written, which costs most of
/// the time of a new file.
/// <para>The old bytes stay in the file at first. Old frames fit no other offset, but a free header must be zero. So the first
/// part is zeroed before the file gets the segment's name, and the bound of what is allocated rises only over what was zeroed
/// since. The file is longer than a segment by <see cref="LogLimits.RecycledMark"/>, which tells every process that. Nothing
/// needs a sync here: after a power loss recovery trusts no byte after the last whole frame.</para>
/// </summary>
internal sealed unsafe class SegmentRecycler(HeldDirectory directory, long segmentLength, ControlPage control)
{
    /// <summary>
    /// How long to wait for another process that zeroes the next part of a segment. That takes less than a millisecond; when the
    /// process stands still, appends continue in the next segment.
    /// </summary>
    private static readonly TimeSpan ZeroingWaitMax = TimeSpan.FromMilliseconds(50);

    private readonly Lock _zeroing = new();

    /// <summary>
    /// Gives a spare the name of a temporary file, if there is one that nobody maps and that has no other name (a hard link: a
    /// snapshot). The caller gives it the segment's name, as it does with a new file.
    /// <code>
    /// step                                              killed after it
    /// 1 rename it: of all makers one succeeds           a dead maker's temporary file, which the next opener removes
    /// 2 take it exclusively: whoever maps it, or is     the same
    ///   about to, is seen here
    /// 3 mark it by its length, zero its first part      the same
    /// </code>
    /// </summary>
    /// <param name="temporary">The temporary name.</param>
    /// <param name="firstLength">How much is zeroed.</param>
    public bool TryTakeSpare(string temporary, long firstLength)
    {
        // Without a policy nothing was removed: a store may have very many segments, and a list of them takes milliseconds.
        if (HasUnmarked || directory.Identify(StoreNames.Retention) is null)
            return false;
        foreach (string name in directory.List(StoreNames.CommitLog))
        {
            if (StoreNames.IsSpare(name) && TryRename($"{StoreNames.CommitLog}/{name}", temporary)
                && TryPrepare(temporary, firstLength))
                return true;
        }

        return false;
    }

    /// <summary>
    /// Zeroes a recycled segment from the bound of what is allocated up to a position, and raises the bound over it. One thread
    /// of all processes at a time: below the bound are messages, and a second thread that has read the bound before would zero
    /// those. The kernel's lock ends with the process.
    /// </summary>
    /// <param name="segment">The segment that holds the bound.</param>
    /// <param name="to">The position.</param>
    /// <param name="look">Called while waiting for another process; throws to end the wait.</param>
    /// <returns>False while another process stands still at it.</returns>
    public bool TryZero(SegmentMapping segment, long to, Action? look)
    {
        lock (_zeroing)
        {
            var deadline = new Deadline(ZeroingWaitMax);
            while (!TryTakeAlone(segment.File))
            {
                if (deadline.IsOver)
                    return false;
                look?.Invoke();
                Thread.Sleep(0);
            }

            try
            {
                // P20 acquire: under the lock; pairs with P20 full below.
                long from = SharedWord.ReadAcquire(control.Allocated) - segment.Start;
                if (from >= to)
                    return true;
                if (PlantedFaults.Has(PlantedFault.AllocatedRaisedEarly))
                    SharedWord.RaiseTo(control.Allocated, segment.Start + to); // P20 full: too early; pairs with P20 acquire.
                ProtocolSteps.Reach(ProtocolStep.ZeroingBegun);
                if (!PlantedFaults.Has(PlantedFault.RecycledNotZeroed) && !segment.TryZero(from, to))
                    ZeroFill.Write(segment.File, from, to);
                ProtocolSteps.Reach(ProtocolStep.RecycledZeroed);
                SharedWord.RaiseTo(control.Allocated, segment.Start + to); // P20 full: zeroed before; pairs with P20 acquire.
                return true;
            }
            finally
            {
                segment.File.EndAlone();
            }
        }
    }

    /// <summary>Without a lock of the file two threads could zero, and the slower one would zero messages.</summary>
    private static bool TryTakeAlone(PlatformFile file) => file.TryTakeAlone() && file.IsTakenAlone;

    /// <summary>Whether the file's next part can be zeroed later on; where it cannot, a new file serves better.</summary>
    private static bool CanTakeAlone(PlatformFile file)
    {
        bool isTaken = TryTakeAlone(file);
        file.EndAlone();
        return isTaken;
    }

    /// <summary>A process that cannot mark what it maps is, or was, attached.</summary>
    // P35 acquire: pairs with P35 release in StoreOpening.
    private bool HasUnmarked => SharedWord.ReadAcquire(control.HasPollers) != 0;

    private bool TryRename(string spare, string temporary)
    {
        try
        {
            return directory.RenameWithoutReplacing(spare, temporary);
        }
        catch (QueueDiskException error) when (error.Errno == DiskErrors.ENOENT)
        {
            // Another maker was faster.
            return false;
        }
    }

    /// <summary>Prepares a spare that was renamed; removes it when somebody uses it, or when it cannot be written.</summary>
    private bool TryPrepare(string temporary, long firstLength)
    {
        ProtocolSteps.Reach(ProtocolStep.SpareTaken);
        bool isPrepared = false;
        try
        {
            using PlatformFile? file = directory.Open(temporary, FileOpening.ReadWrite);
            // Once more after the renames: a Portable process that attached since the first look may have mapped the file by the
            // segment's name. One that attaches later finds no such name.
            isPrepared = file is not null && file.TryTakeUnused() && !HasUnmarked && !HasOtherNames(file) && CanTakeAlone(file)
                && file.Length >= segmentLength && file.TryAllocate(0, firstLength);
            if (isPrepared)
            {
                file!.SetLength(segmentLength + LogLimits.RecycledMark);
                if (!PlantedFaults.Has(PlantedFault.RecycledNotZeroed))
                    ZeroFill.Write(file, 0, firstLength);
                file.EndUse();
                ProtocolSteps.Reach(ProtocolStep.SpareZeroed);
            }
        }
        catch (QueueDiskException)
        {
            // A new file meets the same error, or does not.
            isPrepared = false;
        }

        if (!isPrepared)
            directory.Delete(temporary);
        return isPrepared;
    }

    private static bool HasOtherNames(PlatformFile file) =>
        file.HasOtherNames && !PlantedFaults.Has(PlantedFault.HardLinkIgnored);
}
