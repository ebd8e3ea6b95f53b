namespace MappedFileQueues.CrashLab.Sim;

/// <summary>
/// A file of the simulated disk: what its users see (the page cache), what the medium holds, and which pages have blocks.
/// Mappings are pointers into the page cache, so stores through them are seen by everybody at once, and by nobody as a call.
/// </summary>
internal sealed unsafe class SimFile : IDisposable
{
    public const int Page = 4096;
    public const int Sector = 512;

    private readonly HashSet<int> _blocks = [];
    private HashSet<int> _durableBlocks = [];
    private SimBuffer _cache = SimBuffer.Rent(2 * Page);
    private SimBuffer? _medium;

    // Pages whose write-back failed, with what they held: the kernel takes them for clean from then on.
    private readonly Dictionary<int, byte[]> _dropped = [];

    public SimFile(int id, bool tracksMedium)
    {
        Id = id;
        if (tracksMedium)
            _medium = SimBuffer.Rent(Page);
    }

    public int Id { get; }

    public int Length { get; private set; }

    /// <summary>The length that the medium knows.</summary>
    public int DurableLength { get; private set; }

    /// <summary>How many mappings point into the cache.</summary>
    public int MapCount { get; set; }

    /// <summary>The opens that have marked it as in use, or the one that has taken it exclusively.</summary>
    public List<SimPlatformFile> Users { get; } = [];

    /// <summary>The open that has it alone, by a lock of the open file.</summary>
    public SimPlatformFile? AloneBy { get; set; }

    /// <summary>
    /// What it held when a snapshot gave it a second name: it belongs to two stores from then on. Null while it has one name.
    /// </summary>
    public byte[]? Shared { get; set; }

    /// <summary>Counts failed write-backs; each descriptor reports one that it has not reported yet.</summary>
    public int ErrorCount { get; private set; }

    public byte* Pointer => _cache.Pointer;

    public Span<byte> Content => _cache.Span[..Length];

    public ReadOnlySpan<byte> Durable => _medium is null ? default : _medium.Span[..DurableLength];

    public int BlockCount => _blocks.Count;

    public IReadOnlyCollection<int> DurableBlocks => _durableBlocks;

    public int PageCount => (Length + Page - 1) / Page;

    public bool HasBlock(int page) => _blocks.Contains(page);

    public void AddBlock(int page) => _blocks.Add(page);

    public void SetLength(int length)
    {
        Reserve(length);
        if (length < Length)
        {
            _cache.Span[length..].Clear();
            _blocks.RemoveWhere(page => page * Page >= length);
        }

        Length = length;
    }

    public void Write(ReadOnlySpan<byte> source, int position)
    {
        if (position + source.Length > Length)
            SetLength(position + source.Length);
        source.CopyTo(_cache.Span[position..]);
    }

    /// <summary>The content of an image: what survived the cut is on the medium.</summary>
    public void Fill(ReadOnlySpan<byte> content, int length, IEnumerable<int> blocks)
    {
        SetLength(length);
        content[..Math.Min(content.Length, length)].CopyTo(_cache.Span);
        foreach (int page in blocks.Where(page => page * Page < length))
            _blocks.Add(page);
        for (int page = 0; page < PageCount; page++)
        {
            if (PageOf(_cache, page).ContainsAnyExcept((byte)0))
                _blocks.Add(page);
        }

        if (_medium is not null)
            Sync();
    }

    /// <summary>Everything that is not on the medium goes there, but for what an earlier failure has made look clean.</summary>
    public void Sync()
    {
        if (_medium is null)
            return;
        for (int page = 0; page < PageCount; page++)
            WriteBack(page);
        DurableLength = Length;
        _durableBlocks = [.. _blocks];
    }

    /// <summary>One page goes to the medium, by a sync or because the system found time for it.</summary>
    public void WriteBack(int page)
    {
        ReserveMedium();
        Span<byte> now = PageOf(_cache, page);
        if (_dropped.TryGetValue(page, out byte[]? dropped) && now.SequenceEqual(dropped))
            return;
        _dropped.Remove(page);
        now.CopyTo(PageOf(_medium!, page));
        DurableLength = Math.Max(DurableLength, Math.Min(Length, (page + 1) * Page));
    }

    /// <summary>The device fails: no dirty page reaches the medium, and none is dirty any more.</summary>
    public void FailWriteBack()
    {
        ErrorCount++;
        foreach (int page in DirtyPages().ToList())
            _dropped[page] = PageOf(_cache, page).ToArray();
    }

    /// <summary>The pages that differ from what the medium holds.</summary>
    public IEnumerable<int> DirtyPages()
    {
        for (int page = 0; page < PageCount; page++)
        {
            if (IsDirty(page))
                yield return page;
        }
    }

    /// <summary>Pages that hold something and have no block: on a full disk that store would have killed the process.</summary>
    public IEnumerable<int> StoresIntoHoles()
    {
        for (int page = 0; page < PageCount; page++)
        {
            if (!_blocks.Contains(page) && PageOf(_cache, page).ContainsAnyExcept((byte)0))
                yield return page;
        }
    }

    /// <summary>Gives the memory back; only when no mapping is left.</summary>
    public void Dispose()
    {
        if (MapCount > 0)
            return;
        _cache.Return();
        _medium?.Return();
    }

    private bool IsDirty(int page) => _medium is null
        || (page + 1) * Page > _medium.Capacity
        || !PageOf(_cache, page).SequenceEqual(PageOf(_medium, page));

    private static Span<byte> PageOf(SimBuffer buffer, int page) => buffer.Span.Slice(page * Page, Page);

    private void ReserveMedium()
    {
        if (_medium!.Capacity < _cache.Capacity)
            _medium = Grown(_medium, _cache.Capacity);
    }

    private void Reserve(int length)
    {
        // Room for the mark of a recycled segment: that file may be mapped then.
        if (length <= _cache.Capacity && (MapCount > 0 || length + Page <= _cache.Capacity))
            return;
        if (MapCount > 0)
            throw new InvalidOperationException("A mapped file cannot grow in this simulation.");
        _cache = Grown(_cache, length + Page);
    }

    private static SimBuffer Grown(SimBuffer old, int length)
    {
        SimBuffer grown = SimBuffer.Rent(length);
        old.Span.CopyTo(grown.Span);
        old.Return();
        return grown;
    }
}
