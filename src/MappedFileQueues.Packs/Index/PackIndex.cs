using MappedFileQueues.Packs.Format;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Packs.Index;

/// <summary>
/// The place of each key's newest value: 4,096 shards selected by the hash, each with its own lock. Any thread may look up.
/// Changes come from the holder of the writer's lock, and from a compaction, which only moves entries.
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

    /// <summary>The number of objects.</summary>
    public long Count => Sum(static shard => shard.Count);

    /// <summary>The memory that the tables take, in bytes.</summary>
    public long Bytes => Sum(static shard => (shard.Capacity * 8L) + 64) + (ShardCount * 8L);

    public IndexShard ShardOf(ulong hash) => _shards[hash >> (64 - IndexEntry.ShardBits)];

    /// <summary>The entries that may belong to this hash, and the shard's version before they were read.</summary>
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
        using (new UninterruptedLock(shard))
            shard.Add(entry);
    }

    public bool Replace(ulong hash, ulong old, ulong entry)
    {
        IndexShard shard = ShardOf(hash);
        using (new UninterruptedLock(shard))
            return shard.Replace(old, entry);
    }

    public bool Remove(ulong hash, ulong entry)
    {
        IndexShard shard = ShardOf(hash);
        using (new UninterruptedLock(shard))
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
        using (new UninterruptedLock(shard))
            return shard.ToArray();
    }

    /// <summary>Replaces one shard's entries.</summary>
    public void Load(int number, ReadOnlySpan<ulong> entries)
    {
        IndexShard shard = _shards[number];
        using (new UninterruptedLock(shard))
            shard.Load(entries);
    }

    /// <summary>
    /// Removes all entries that point into volumes which are gone. The caller lets nobody else change the index.
    /// </summary>
    public void RemoveSlots(IReadOnlySet<int> slots)
    {
        for (int number = 0; number < ShardCount; number++)
        {
            ulong[] entries = CopyShard(number);
            ulong[] kept = Without(entries, slots);
            if (kept.Length < entries.Length)
                Load(number, kept);
        }
    }

    /// <summary>The entries that do not point into these volumes.</summary>
    public ulong[] Without(ulong[] entries, IReadOnlySet<int> slots) =>
        [.. entries.Where(entry => !slots.Contains(Layout.Slot(entry)))];

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
