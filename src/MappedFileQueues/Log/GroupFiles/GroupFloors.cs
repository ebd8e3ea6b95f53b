using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.GroupFiles;

/// <summary>
/// The floors of all groups, for a producer that follows the slowest one, as <see cref="ConsumerCursors"/> has the cursors. The
/// tables stay mapped, and the folder is listed again when a group has come or gone. Portable maps them for each look: some
/// systems do not remove a file that is mapped. Any thread.
/// </summary>
internal sealed unsafe class GroupFloors(HeldDirectory directory, Guid storeId, ControlPage control, bool isPortable)
    : IDisposable
{
    /// <summary>So many tables, of 1 MiB each, are mapped at most; the others are mapped for each look.</summary>
    private const int MappedMax = 64;

    private readonly Lock _lock = new();
    private readonly List<MappedGroup> _mapped = [];
    private readonly List<string> _unmapped = [];
    private MappedGroup? _slowest;
    private RecentLook _slowestIsThere;
    private ulong _listedAt;
    private bool _isListed;

    /// <summary>
    /// The lowest floor; <see cref="long.MaxValue"/> when there is none. A group before the log start was dropped and does not
    /// count.
    /// </summary>
    /// <exception cref="QueueDiskException">One cannot be read: no producer knows how far it may go.</exception>
    /// <exception cref="QueueCorruptException">One is damaged: the same.</exception>
    public long FindSlowest()
    {
        lock (_lock)
        {
            // P16 acquire: before the floors: one that counts is not dropped yet; pairs with P16 full in SegmentTrimmer.
            long logStart = SharedWord.ReadAcquire(control.LogStart);
            // P38 acquire: before the folder is listed; pairs with P38 full in ConsumerCursors.NoteChange.
            ulong changed = SharedWord.ReadAcquire(control.ConsumersChanged);
            if (isPortable || !_isListed || changed != _listedAt)
                List(changed);
            long slowest = long.MaxValue;
            _slowest = null;
            foreach (MappedGroup group in _mapped)
            {
                long floor = GroupScan.FindFloor(group.Table, group.File);
                if (floor >= logStart && floor < slowest)
                    (slowest, _slowest) = (floor, group);
            }

            foreach (string file in _unmapped)
            {
                using MappedRegion? region = GroupFile.MapForReading(directory, storeId, file);
                long floor = region is null ? long.MaxValue : GroupScan.FindFloor(new GroupTable(region), file);
                if (floor >= logStart)
                    slowest = Math.Min(slowest, floor);
            }

            return slowest;
        }
    }

    /// <summary>
    /// Whether the slowest group of the last look has lost its file, and nobody said so. The next look lists the folder.
    /// </summary>
    public bool IsSlowestGone()
    {
        lock (_lock)
        {
            if (_slowest is not { } slowest || _slowestIsThere.IsFresh(out long now))
                return false;
            bool isGone = directory.Identify(slowest.File) != slowest.Identity;
            if (isGone)
                _isListed = false;
            else
                _slowestIsThere.Note(now);
            return isGone;
        }
    }

    public void Dispose()
    {
        lock (_lock)
            Unmap();
    }

    private void List(ulong changed)
    {
        Unmap();
        foreach (string name in GroupFile.Names(directory))
        {
            string file = StoreNames.Group(name);
            if (isPortable || _mapped.Count >= MappedMax)
            {
                _unmapped.Add(file);
                continue;
            }

            // Identified first: when it is replaced in between, the next look at its name finds that out.
            FileIdentity? identity = directory.Identify(file);
            if (identity is { } there && GroupFile.MapForReading(directory, storeId, file) is { } region)
                _mapped.Add(new MappedGroup(file, there, region, new GroupTable(region)));
        }

        (_listedAt, _isListed) = (changed, true);
    }

    private void Unmap()
    {
        foreach (MappedGroup group in _mapped)
            group.Region.Dispose();
        _mapped.Clear();
        _unmapped.Clear();
        _slowest = null;
        _isListed = false;
    }

    private sealed record MappedGroup(string File, FileIdentity Identity, MappedRegion Region, GroupTable Table);
}
