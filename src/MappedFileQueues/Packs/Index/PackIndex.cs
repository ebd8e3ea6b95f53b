using MappedFileQueues.Packs.Format;

namespace MappedFileQueues.Packs.Index;

/// <summary>
/// Where each key's newest value lies: 4,096 shards chosen by the hash, each with a lock of its own. Any thread may ask; changes
/// come from the one that holds the writer's lock, and from a compaction, which only moves entries.
/// </summary>
internal sealed class PackIndex
{
    public const int ShardCount = 1 << IndexEntry.ShardBits;

    private readonly IndexShard[] _shards;

    public PackIndex(IndexEntry layout)
    {
        Layout = layout;
        _shards = new IndexShard[ShardCount];
        for (int i = 0; i < ShardCount; i++)
            _shards[i] = new IndexShard(layout.TagBits);
    }

    public IndexEntry Layout { get; }

    /// <summary>How many objects there are.</summary>
    public long Count => Sum(static shard => shard.Count);

    /// <summary>What the tables take, in bytes.</summary>
    public long Bytes => Sum(static shard => (shard.Capacity * 8L) + 64) + (ShardCount * 8L);

    public IndexShard ShardOf(ulong hash) => _shards[hash >> (64 - IndexEntry.ShardBits)];

    /// <summary>The entries that this hash may mean, and the shard's version before they were read.</summary>
    public int Find(ulong hash, ref Span<ulong> found, out int version)
    {
        IndexShard shard = ShardOf(hash);
        ulong tag = Layout.TagOf(hash);
        lock (shard)
        {
            version = shard.Version;
            int count = shard.Find(tag, found);
            if (count > found.Length)
            {
                found = new ulong[count];
                shard.Find(tag, found);
            }

            return count;
        }
    }

    public void Add(ulong hash, ulong entry)
    {
        IndexShard shard = ShardOf(hash);
        lock (shard)
            shard.Add(entry);
    }

    public bool Replace(ulong hash, ulong old, ulong entry)
    {
        IndexShard shard = ShardOf(hash);
        lock (shard)
            return shard.Replace(old, entry);
    }

    public bool Remove(ulong hash, ulong entry)
    {
        IndexShard shard = ShardOf(hash);
        lock (shard)
            return shard.Remove(entry);
    }

    public bool Contains(ulong hash, ulong entry)
    {
        IndexShard shard = ShardOf(hash);
        lock (shard)
            return shard.Contains(entry);
    }

    /// <summary>A copy of one shard's entries.</summary>
    public ulong[] CopyShard(int number)
    {
        IndexShard shard = _shards[number];
        lock (shard)
            return shard.ToArray();
    }

    /// <summary>Gives an empty index the entries of one shard.</summary>
    public void Load(int number, ReadOnlySpan<ulong> entries)
    {
        IndexShard shard = _shards[number];
        lock (shard)
            shard.Load(entries);
    }

    /// <summary>Forgets all that a lost volume held.</summary>
    public void RemoveSlot(int slot)
    {
        for (int number = 0; number < ShardCount; number++)
        {
            ulong[] entries = CopyShard(number);
            ulong[] kept = [.. entries.Where(entry => Layout.Slot(entry) != slot)];
            if (kept.Length < entries.Length)
                Load(number, kept);
        }
    }

    private long Sum(Func<IndexShard, long> part)
    {
        long sum = 0;
        foreach (IndexShard shard in _shards)
        {
            lock (shard)
                sum += part(shard);
        }

        return sum;
    }
}
