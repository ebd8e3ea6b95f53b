namespace MappedFileQueues.Tests.Crash.Cuts;

/// <summary>
/// A store whose machine has lost its power: everybody is gone, and the disk may not hold what the page cache held.
/// </summary>
internal sealed class CutStore : IDisposable
{
    private CutStore(CrashStore store) => Store = store;

    public CrashStore Store { get; }

    public List<string> Texts { get; } = [];

    /// <summary>Where each message begins.</summary>
    public List<long> Offsets { get; } = [];

    /// <summary>A store with messages of different lengths, and the cursor of a consumer `ahead` at its end.</summary>
    public static CutStore Make(long segmentSize, int count, bool flushes = false)
    {
        var cut = new CutStore(new CrashStore(segmentSize));
        cut.Fill(count, flushes);
        using var words = new StoreWords(cut.Store.Path);
        if (!flushes)
            words.ResetCheckpoint();
        return cut;
    }

    /// <summary>Makes a message torn.</summary>
    public void Damage(int index)
    {
        using var words = new StoreWords(Store.Path);
        byte[] was = words.BytesAt(Offsets[index] + 12, 1);
        words.WriteAt(Offsets[index] + 12, (byte)(was[0] ^ 0x55));
    }

    /// <summary>What is in the segment of a message from that message on.</summary>
    public byte[] BytesFrom(int index)
    {
        using var words = new StoreWords(Store.Path);
        long offset = Offsets[index];
        return words.BytesAt(offset, (int)(words.Meta.SegmentLength - (offset % words.Meta.SegmentLength)));
    }

    /// <summary>What recovery set aside of the tail's own segment.</summary>
    public byte[] Salvaged() =>
        File.ReadAllBytes(Directory.GetFiles(Path.Combine(Store.Path, "salvage"), "*.cut").Order(StringComparer.Ordinal).First());

    /// <summary>Opens and closes the store in another boot.</summary>
    public void Recover()
    {
        using PeerAgent opener = Store.StartAttached(Guid.NewGuid());
        opener.Ask("close");
    }

    public MappedFileQueueInfo Info()
    {
        using MappedFileReader reader = MappedFileReader.Open(Store.Path);
        return reader.GetInfo();
    }

    public void Dispose() => Store.Dispose();

    private void Fill(int count, bool flushes)
    {
        using MappedFileQueue queue = Store.Open();
        using MappedFileProducer producer = queue.OpenProducer();
        for (int i = 0; i < count; i++)
        {
            Texts.Add($"m-{i}");
            Offsets.Add(producer.Produce(CrashMessage.Make($"m-{i}", i * 37 % 301)));
        }

        if (flushes)
            queue.Flush();
        queue.OpenConsumer("ahead", QueueStart.Latest).Dispose();
    }
}
