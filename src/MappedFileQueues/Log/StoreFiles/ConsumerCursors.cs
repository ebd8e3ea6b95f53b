using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// The stored offsets of all consumers, for a producer that follows the slowest one. The cursors stay mapped, so that a look
/// costs a load for each consumer; the folder is listed again when a cursor has come or gone. Portable reads the files each time:
/// some systems do not remove a file that is mapped. Any thread.
/// </summary>
internal sealed unsafe class ConsumerCursors(HeldDirectory directory, ControlPage control, bool isPortable) : IDisposable
{
    private readonly Lock _lock = new();
    private readonly List<MappedRegion> _mapped = [];
    private ulong _listedAt;
    private bool _isListed;

    /// <summary>
    /// The lowest offset of a consumer; <see cref="long.MaxValue"/> when there is none. A consumer before low water was dropped
    /// and does not count.
    /// </summary>
    public long FindSlowest()
    {
        lock (_lock)
        {
            // P16 acquire: before the cursors: one that counts is not dropped yet; pairs with P16 full in SegmentTrimmer.
            long lowWater = SharedWord.ReadAcquire(control.LowWater);
            return isPortable ? FindInFiles(lowWater) : FindInMappings(lowWater);
        }
    }

    /// <summary>Lists the folder at the next look. The process that removed a cursor may have died before it said so.</summary>
    public void Forget()
    {
        lock (_lock)
            _isListed = false;
    }

    /// <summary>Says that a cursor has come or gone: after its file was made or removed.</summary>
    // P38 full: the folder comes first; pairs with P38 acquire in ConsumerCursors.FindInMappings.
    public static void NoteChange(ControlPage control) => SharedWord.Add(control.ConsumersChanged, 1);

    public void Dispose()
    {
        lock (_lock)
            Unmap();
    }

    private long FindInFiles(long lowWater)
    {
        long slowest = long.MaxValue;
        foreach (string name in CursorFile.Names(directory))
        {
            if (CursorFile.Read(directory, name) is { } offset && offset >= lowWater)
                slowest = Math.Min(slowest, offset);
        }

        return slowest;
    }

    private long FindInMappings(long lowWater)
    {
        // P38 acquire: before the folder is listed; pairs with P38 full in NoteChange.
        ulong changed = SharedWord.ReadAcquire(control.ConsumersChanged);
        if (!_isListed || changed != _listedAt)
            Map(changed);
        long slowest = long.MaxValue;
        foreach (MappedRegion cursor in _mapped)
        {
            // P15 acquire: after a waiter has raised the flag; pairs with P15 release in LogConsumer.StoreCursor.
            ulong word = SharedWord.ReadAcquire(cursor.Word(0));
            if (CursorWord.IsValid(word) && CursorWord.Offset(word) >= lowWater)
                slowest = Math.Min(slowest, CursorWord.Offset(word));
        }

        return slowest;
    }

    private void Map(ulong changed)
    {
        Unmap();
        foreach (string name in CursorFile.Names(directory))
        {
            using PlatformFile? file = directory.Open(name, FileOpening.Read);
            // One that is shorter is being made; its maker says so afterwards.
            if (file is not null && file.Length >= CursorWord.FileLength)
                _mapped.Add(MappedRegion.MapWhole(file, CursorWord.FileLength, writable: false));
        }

        (_listedAt, _isListed) = (changed, true);
    }

    private void Unmap()
    {
        foreach (MappedRegion cursor in _mapped)
            cursor.Dispose();
        _mapped.Clear();
        _isListed = false;
    }
}
