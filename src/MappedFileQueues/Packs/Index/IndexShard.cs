using System.Diagnostics;

namespace MappedFileQueues.Packs.Index;

/// <summary>
/// One of the index's tables: open addressing, linear probing. The home of an entry follows from its tag alone, so that the table
/// can grow, and close the gap that a removal leaves, without reading a key. Every call is made under the shard's own lock; the
/// version tells a reader that what it looked up may have moved meanwhile.
/// </summary>
internal sealed class IndexShard(int tagBits)
{
    private const int CapacityMin = 4;

    private ulong[] _entries = [];
    private int _count;
    private int _version;

    public int Count => _count;

    public int Capacity => _entries.Length;

    /// <summary>Raised by each change.</summary>
    public int Version => Volatile.Read(ref _version);

    /// <summary>Copies the entries of that tag; returns how many there are, which may be more than fit.</summary>
    public int Find(ulong tag, Span<ulong> found)
    {
        int count = 0;
        if (_entries.Length == 0)
            return 0;
        for (int at = Home(tag); _entries[at] != 0; at = Next(at))
        {
            if (_entries[at] >> (64 - tagBits) != tag)
                continue;
            if (count < found.Length)
                found[count] = _entries[at];
            count++;
        }

        return count;
    }

    public bool Contains(ulong entry) => IndexOf(entry) >= 0;

    public void Add(ulong entry)
    {
        Debug.Assert(entry != 0, "0 marks a free place.");
        if (_count + 1 > (long)_entries.Length * 85 / 100)
            Grow(Math.Max(CapacityMin, _entries.Length + (_entries.Length / 5) + 1));
        Place(_entries, entry);
        _count++;
        _version++;
    }

    /// <summary>Puts one entry in the other's place; both have the same tag. False when the old one is not there.</summary>
    public bool Replace(ulong old, ulong entry)
    {
        int at = IndexOf(old);
        if (at < 0)
            return false;
        _entries[at] = entry;
        _version++;
        return true;
    }

    /// <summary>Removes an entry; false when it is not there.</summary>
    public bool Remove(ulong entry)
    {
        int gap = IndexOf(entry);
        if (gap < 0)
            return false;

        // Those behind move up unless that would put them before their home.
        for (int at = Next(gap); _entries[at] != 0; at = Next(at))
        {
            int home = Home(_entries[at] >> (64 - tagBits));
            bool isHomeBehindGap = gap <= at ? gap < home && home <= at : gap < home || home <= at;
            if (isHomeBehindGap)
                continue;
            _entries[gap] = _entries[at];
            gap = at;
        }

        _entries[gap] = 0;
        _count--;
        _version++;
        return true;
    }

    /// <summary>All entries, in no order.</summary>
    public ulong[] ToArray()
    {
        ulong[] all = new ulong[_count];
        int count = 0;
        foreach (ulong entry in _entries)
        {
            if (entry != 0)
                all[count++] = entry;
        }

        return all;
    }

    /// <summary>Takes these entries in place of what is there.</summary>
    public void Load(ReadOnlySpan<ulong> entries)
    {
        _entries = entries.Length == 0 ? [] : new ulong[Math.Max(CapacityMin, (int)((long)entries.Length * 100 / 80) + 1)];
        foreach (ulong entry in entries)
            Place(_entries, entry);
        _count = entries.Length;
        _version++;
    }

    private void Grow(int capacity)
    {
        ulong[] larger = new ulong[capacity];
        foreach (ulong entry in _entries)
        {
            if (entry != 0)
                Place(larger, entry);
        }

        _entries = larger;
    }

    private void Place(ulong[] entries, ulong entry)
    {
        int at = Home(entry >> (64 - tagBits), entries.Length);
        while (entries[at] != 0)
            at = at + 1 == entries.Length ? 0 : at + 1;
        entries[at] = entry;
    }

    private int IndexOf(ulong entry)
    {
        if (_entries.Length == 0)
            return -1;
        for (int at = Home(entry >> (64 - tagBits)); _entries[at] != 0; at = Next(at))
        {
            if (_entries[at] == entry)
                return at;
        }

        return -1;
    }

    private int Home(ulong tag) => Home(tag, _entries.Length);

    private int Home(ulong tag, int capacity) => (int)((UInt128)tag * (ulong)capacity >> tagBits);

    private int Next(int at) => at + 1 == _entries.Length ? 0 : at + 1;
}
