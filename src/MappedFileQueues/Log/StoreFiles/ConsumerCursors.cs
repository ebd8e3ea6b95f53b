using System.Runtime.ExceptionServices;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// The stored offsets of all consumers, for a producer that follows the slowest one. The cursors stay mapped, so that a look
/// costs a load for each consumer, up to <see cref="MappedMax"/> of them; the others are read from their files. The folder is
/// listed again when a cursor has come or gone. Portable reads the files each time: some systems do not remove a file that is
/// mapped. Any thread.
/// </summary>
internal sealed unsafe class ConsumerCursors(HeldDirectory directory, ControlPage control, bool isPortable) : IDisposable
{
    /// <summary>
    /// So many cursors are mapped at most, in all queues of this process. A process may have 65,530 mappings (vm.max_map_count),
    /// and at the next one after that it ends, whoever asks for it.
    /// </summary>
    public const int MappedMax = 4096;

    private static readonly Lock s_counting = new();
    private static int s_mapped;

    private readonly Lock _lock = new();
    private readonly List<MappedCursor> _mapped = [];
    private readonly List<string> _unmapped = [];
    private MappedCursor? _slowest;
    private RecentLook _slowestIsThere;
    private ulong _listedAt;
    private bool _isListed;

    /// <summary>
    /// The lowest offset of a consumer; <see cref="long.MaxValue"/> when there is none. A consumer before the log start was
    /// dropped and does not count.
    /// </summary>
    public long FindSlowest()
    {
        lock (_lock)
        {
            // P16 acquire: before the cursors: one that counts is not dropped yet; pairs with P16 full in SegmentTrimmer.
            long logStart = SharedWord.ReadAcquire(control.LogStart);
            return isPortable ? FindInFiles(logStart) : FindInMappings(logStart);
        }
    }

    /// <summary>
    /// Whether the slowest cursor of the last look has lost its file, and nobody said so: the process that removed it died just
    /// then, or it was no process of ours. The next look lists the folder.
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

    /// <summary>Says that a cursor has come or gone: after its file was made or removed.</summary>
    // P38 full: the folder comes first; pairs with P38 acquire in ConsumerCursors.FindInMappings.
    public static void NoteChange(ControlPage control) => SharedWord.Add(control.ConsumersChanged, 1);

    public void Dispose()
    {
        lock (_lock)
            Unmap();
    }

    private long FindInFiles(long logStart)
    {
        long slowest = long.MaxValue;
        foreach (string name in CursorFile.Names(directory))
            slowest = Math.Min(slowest, Read(name, logStart));
        return slowest;
    }

    /// <exception cref="QueueDiskException">It cannot be read: no producer knows how far it may go.</exception>
    /// <exception cref="QueueCorruptException">It is damaged: the same.</exception>
    private long Read(string name, long logStart)
    {
        StoredCursor cursor = CursorFile.TryRead(directory, name);
        if (cursor.IsUnknown)
            ExceptionDispatchInfo.Throw(cursor.Error!);
        return cursor.Offset is { } offset && offset >= logStart ? offset : long.MaxValue;
    }

    private long FindInMappings(long logStart)
    {
        // P38 acquire: before the folder is listed; pairs with P38 full in NoteChange.
        ulong changed = SharedWord.ReadAcquire(control.ConsumersChanged);
        if (!_isListed || changed != _listedAt)
            Map(changed);
        long slowest = long.MaxValue;
        MappedCursor? found = null;
        foreach (MappedCursor cursor in _mapped)
        {
            // P15 acquire: after a waiter has raised the flag; pairs with P15 release in LogConsumer.StoreCursor.
            ulong word = SharedWord.ReadAcquire(cursor.Region.Word(0));
            if (word == CursorWord.New)
                continue;
            long offset = CursorFile.Parse(directory, cursor.File, word);
            if (offset >= logStart && offset < slowest)
                (slowest, found) = (offset, cursor);
        }

        _slowest = found;
        foreach (string name in _unmapped)
            slowest = Math.Min(slowest, Read(name, logStart));
        return slowest;
    }

    private void Map(ulong changed)
    {
        Unmap();
        foreach (string name in CursorFile.Names(directory))
        {
            if (!TryMap(name))
                _unmapped.Add(name);
        }

        (_listedAt, _isListed) = (changed, true);
    }

    /// <summary>
    /// False when it is to be read from its file: there are too many, it is shorter because it is being made, or it cannot be
    /// mapped. Then each look meets the reason.
    /// </summary>
    private bool TryMap(string name)
    {
        if (!TryCount())
            return false;
        MappedCursor? cursor = null;
        try
        {
            using PlatformFile? file = directory.Open(name, FileOpening.Read);
            // Whoever makes it says so before it holds an offset.
            if (file is null)
                return true;
            if (file.Length >= CursorWord.FileLength)
            {
                cursor = new MappedCursor(
                    name, file.Identity, MappedRegion.MapWhole(file, CursorWord.FileLength, writable: false));
                _mapped.Add(cursor);
            }
        }
        catch (QueueDiskException)
        {
            // Read meets it too.
        }
        finally
        {
            if (cursor is null)
                Uncount(1);
        }

        return cursor is not null;
    }

    private static bool TryCount()
    {
        lock (s_counting)
        {
            if (s_mapped >= MappedMax)
                return false;
            s_mapped++;
            return true;
        }
    }

    private static void Uncount(int count)
    {
        lock (s_counting)
            s_mapped -= count;
    }

    private void Unmap()
    {
        foreach (MappedCursor cursor in _mapped)
            cursor.Region.Dispose();
        Uncount(_mapped.Count);
        _mapped.Clear();
        _unmapped.Clear();
        _slowest = null;
        _isListed = false;
    }

    private sealed record MappedCursor(string File, FileIdentity Identity, MappedRegion Region);
}
