using System.Diagnostics;

namespace MappedFileQueues.Packs.Index;

/// <summary>
/// One table of the index: open addressing with linear probing. An entry's home follows from its tag alone, so the table can
/// grow, and can close the gap of a removed entry, without reading a key. All calls run under the shard's own lock. From the
/// version a reader knows whether what it looked up may have moved since.
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

    /// <summary>Copies the entries of this tag. Returns their number, which may exceed the room for them.</summary>
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

    /// <summary>Replaces one entry by another with the same tag. False if the old one is missing.</summary>
    public bool Replace(ulong old, ulong entry)
    {
        int at = IndexOf(old);
        if (at < 0)
            return false;
        _entries[at] = entry;
        _version++;
        return true;
    }

    /// <summary>Removes an entry; false if it is missing.</summary>
    public bool Remove(ulong entry)
    {
        int gap = IndexOf(entry);
        if (gap < 0)
            return false;

        // The entries after the gap move up, except those that would come before their home.
        for (int at = Next(gap); _entries[at] != 0; at = Next(at))
        {
            int home = Home(_entries[at] >> (64 - tagBits));
            bool isHomeAfterGap = gap <= at ? gap < home && home <= at : gap < home || home <= at;
            if (isHomeAfterGap)
                continue;
            _entries[gap] = _entries[at];
            gap = at;
        }

        _entries[gap] = 0;
        _count--;
        _version++;
        return true;
    }

    /// <summary>All entries, in no particular order.</summary>
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

    /// <summary>Replaces all entries by these.</summary>
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
