using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// The files that say how far each consumer, or each group, is; for a producer that follows the slowest one. They stay mapped, so
/// that a look costs a load or a few for each, up to <see cref="MappedMax"/> of them; the others are read anew. The folder is
/// listed again when a file has come or gone. Portable reads the files each time: some systems do not remove a file that is
/// mapped. Any thread.
/// </summary>
internal abstract unsafe class PlaceFiles(HeldDirectory directory, ControlPage control, bool isPortable) : IDisposable
{
    /// <summary>
    /// So many files are mapped at most, by all queues of this process. A process may have 65,530 mappings (vm.max_map_count),
    /// and at the next one after that it ends, whoever asks for it.
    /// </summary>
    public const int MappedMax = 4096;

    private static readonly Lock s_counting = new();
    private static int s_mapped;

    private readonly Lock _lock = new();
    private readonly List<MappedPlace> _mapped = [];
    private readonly List<string> _unmapped = [];
    private MappedPlace? _slowest;
    private RecentLook _slowestIsThere;
    private ulong _listedAt;
    private bool _isListed;

    /// <summary>The store.</summary>
    protected HeldDirectory Directory => directory;

    /// <summary>
    /// The lowest offset; <see cref="long.MaxValue"/> when there is none. One before the log start was dropped and does not
    /// count.
    /// </summary>
    /// <exception cref="QueueDiskException">One cannot be read: no producer knows how far it may go.</exception>
    /// <exception cref="QueueCorruptException">One is damaged: the same.</exception>
    public long FindSlowest()
    {
        lock (_lock)
        {
            // P16 acquire: before the offsets: one that counts is not dropped yet; pairs with P16 full in SegmentTrimmer.
            long logStart = SharedWord.ReadAcquire(control.LogStart);
            // P38 acquire: before the folder is listed; pairs with P38 full in NoteChange.
            ulong changed = SharedWord.ReadAcquire(control.ConsumersChanged);
            if (isPortable || !_isListed || changed != _listedAt)
                List(changed);
            long slowest = long.MaxValue;
            _slowest = null;
            foreach (MappedPlace place in _mapped)
            {
                long offset = Read(place);
                if (offset >= logStart && offset < slowest)
                    (slowest, _slowest) = (offset, place);
            }

            foreach (string name in _unmapped)
            {
                long offset = Read(name);
                if (offset >= logStart)
                    slowest = Math.Min(slowest, offset);
            }

            return slowest;
        }
    }

    /// <summary>
    /// Whether the slowest one of the last look has lost its file, and nobody said so: the process that removed it died just
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

    /// <summary>Says that a file has come or gone: after it was made or removed.</summary>
    // P38 full: the folder comes first; pairs with P38 acquire in PlaceFiles.FindSlowest.
    public static void NoteChange(ControlPage control) => SharedWord.Add(control.ConsumersChanged, 1);

    public void Dispose()
    {
        lock (_lock)
            Unmap();
    }

    /// <summary>The files that are there.</summary>
    protected abstract IEnumerable<string> List();

    /// <summary>Maps a file; null when it is to be read at each look, which meets the reason.</summary>
    protected abstract MappedPlace? TryMap(string file);

    /// <summary>The offset in a mapped file; <see cref="long.MaxValue"/> when it has none.</summary>
    protected abstract long Read(MappedPlace place);

    /// <summary>The same for a file that is not mapped.</summary>
    protected abstract long Read(string file);

    private void List(ulong changed)
    {
        Unmap();
        foreach (string file in List())
        {
            if (isPortable || !TryAddMapped(file))
                _unmapped.Add(file);
        }

        (_listedAt, _isListed) = (changed, true);
    }

    private bool TryAddMapped(string file)
    {
        lock (s_counting)
        {
            if (s_mapped >= MappedMax)
                return false;
            s_mapped++;
        }

        MappedPlace? place = null;
        try
        {
            place = TryMap(file);
        }
        finally
        {
            if (place is null)
                Uncount(1);
        }

        if (place is not null)
            _mapped.Add(place);
        return place is not null;
    }

    private static void Uncount(int count)
    {
        lock (s_counting)
            s_mapped -= count;
    }

    private void Unmap()
    {
        foreach (MappedPlace place in _mapped)
            place.Region.Dispose();
        Uncount(_mapped.Count);
        _mapped.Clear();
        _unmapped.Clear();
        _slowest = null;
        _isListed = false;
    }

    /// <summary>A mapped file.</summary>
    /// <param name="File">Its name.</param>
    /// <param name="Identity">Which file it is.</param>
    /// <param name="Region">Its mapping.</param>
    protected record MappedPlace(string File, FileIdentity Identity, MappedRegion Region);
}
