using System.Globalization;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Index;
using MappedFileQueues.Log.Index;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Files;

namespace MappedFileQueues.Tests.Log.Index;

/// <summary>
/// A store with an index of small steps, its clock, and a list of what is in it: the walk that answers are compared with.
/// </summary>
internal sealed class IndexedStore : IDisposable
{
    public const int SegmentSize = 16 * 1024;

    private readonly List<byte[]> _batch = [];
    private MappedFileQueue? _queue;
    private int _counted;

    public IndexedStore(int countBits = 12, int stepBits = 12)
    {
        Open();
        using HeldDirectory directory = OpenDirectory();
        StoreMeta meta = StoreMetaFile.Read(directory)!;
        using IndexFile file = IndexFile.TryBegin(directory, meta, new IndexPage(meta.StoreId, 1, 0, stepBits, countBits))!;
        file.WriteCounted(new IndexEntry(0, 0, IndexEntry.NoTime));
    }

    public TempStore Temp { get; } = new();

    public ManualTime Time { get; } = new(DateTimeOffset.Parse("2026-03-01T12:00:00Z", CultureInfo.InvariantCulture));

    public MappedFileQueue Queue => _queue!;

    public string IndexPath => Temp.PathOf("offset", "index");

    /// <summary>Where each message is.</summary>
    public List<long> Offsets { get; } = [];

    /// <summary>When each message was counted; shorter than the other list while some are not.</summary>
    public List<DateTimeOffset> Times { get; } = [];

    public void Open(Action<MappedFileQueueOptions>? change = null)
    {
        MappedFileQueueOptions options = new()
        {
            StorePath = Temp.StorePath,
            SegmentSize = SegmentSize,
            Durability = DurabilityLevel.PageCache,
            TimeProvider = Time,
        };
        change?.Invoke(options);
        _queue = new MappedFileQueue(options);
    }

    public void Close()
    {
        Flush();
        _queue!.Dispose();
        _queue = null;
    }

    public void Produce(int length, MappedFileQueue? queue = null) =>
        Offsets.Add((queue ?? Queue).Producer.Produce(Payload.Bytes(length, Offsets.Count)));

    public void ProduceBatch(ReadOnlySpan<int> lengths)
    {
        _batch.Clear();
        foreach (int length in lengths)
            _batch.Add(Payload.Bytes(length, _batch.Count));
        long offset = Queue.Producer.ProduceBatch([.. _batch.Select(message => (ReadOnlyMemory<byte>)message)]);
        foreach (byte[] message in _batch)
        {
            Offsets.Add(offset);
            offset += FrameHeader.FrameLength(message.Length);
        }
    }

    /// <summary>A flush counts what was not counted, as of now.</summary>
    public void Flush(MappedFileQueue? queue = null)
    {
        (queue ?? Queue).Flush();
        for (; _counted < Offsets.Count; _counted++)
            Times.Add(Time.GetUtcNow());
    }

    /// <summary>
    /// Moves the clock after a flush: the queue's thread flushes too, when a segment is full, and what it counts has to be of the
    /// same time.
    /// </summary>
    public void Advance(TimeSpan time)
    {
        Flush();
        Time.Advance(time);
    }

    /// <summary>Produces messages and flushes now and then, so that a minute passes for each flush.</summary>
    public void Fill(int count, int length = 100, int flushEvery = 50)
    {
        for (int i = 0; i < count; i++)
        {
            Produce(length);
            if (i % flushEvery != flushEvery - 1)
                continue;
            Advance(TimeSpan.FromMinutes(1));
        }

        Flush();
    }

    public HeldDirectory OpenDirectory() => CurrentPlatform.Services.OpenDirectory(Temp.StorePath, create: false, mode: null)!;

    /// <summary>The entries of the file as they are, and the place up to which it counts.</summary>
    public (List<IndexEntry> Entries, IndexEntry? Counted, IndexPage Page) ReadIndex()
    {
        byte[] bytes = File.ReadAllBytes(IndexPath);
        using HeldDirectory directory = OpenDirectory();
        StoreMeta meta = StoreMetaFile.Read(directory)!;
        IndexPage page = IndexPage.Parse(bytes, meta.StoreId) ?? throw new InvalidOperationException("There is no index.");
        List<IndexEntry> entries = [];
        for (int at = IndexPage.Length; at + IndexEntry.Length <= bytes.Length; at += IndexEntry.Length)
        {
            if (IndexEntry.Parse(bytes.AsSpan(at), page.Series, meta.LogId) is { } entry)
                entries.Add(entry);
        }

        return (entries, IndexEntry.Parse(bytes.AsSpan(IndexPage.CountedAt), page.Series, meta.LogId), page);
    }

    /// <summary>Asks for numbers and offsets, from a queue and from a reader, and compares with the list.</summary>
    /// <param name="questions">How many of each.</param>
    /// <param name="random">Chooses them.</param>
    public void CheckNumbers(int questions, Random random)
    {
        using MappedFileReader reader = MappedFileReader.Open(Temp.StorePath);
        MappedFileQueueInfo info = reader.GetInfo(countsMessages: true);
        int removed = Offsets.FindIndex(offset => offset >= info.LogStart);
        int first = removed < 0 ? Offsets.Count : removed;
        int zero = Offsets.Count(offset => offset < info.NumberedFrom);
        Assert.Equal(Offsets.Count - first, info.MessageCount);
        for (int i = 0; i < questions; i++)
        {
            int which = random.Next(first, Offsets.Count + 1);
            long offset = which == Offsets.Count ? info.PublishedOffset : Offsets[which];
            Assert.Equal(which - zero, reader.FindNumber(offset));
            Assert.Equal(which == Offsets.Count ? offset : Offsets[which], reader.FindOffset(which - zero));
            if (_queue is null)
                continue;
            Assert.Equal(which - zero, _queue.FindNumber(offset));
            Assert.Equal(offset, _queue.FindOffset(which - zero));
        }

        Assert.Throws<OffsetOutOfRangeException>(() => reader.FindOffset(Offsets.Count - zero + 1));
        Assert.Throws<OffsetOutOfRangeException>(() => reader.FindNumber(info.PublishedOffset + 8));
        if (first > zero)
            Assert.Throws<OffsetOutOfRangeException>(() => reader.FindOffset(first - zero - 1));
        if (info.LogStart > 0)
            Assert.Throws<OffsetOutOfRangeException>(() => reader.FindNumber(info.LogStart - 8));
    }

    /// <summary>
    /// No message of the time or later is before the place. With <paramref name="tooEarlyMax"/> the place is also no further
    /// before the first message that may be of that time.
    /// </summary>
    public void CheckTime(DateTimeOffset time, long? tooEarlyMax = null)
    {
        long found = Queue.FindOffset(time);
        MappedFileQueueInfo info = Queue.GetInfo();
        for (int i = 0; i < Offsets.Count && Offsets[i] < found; i++)
        {
            bool isBefore = (i < Times.Count ? Times[i] : Time.GetUtcNow()) < time || Offsets[i] < info.LogStart;
            Assert.True(isBefore, $"too late: time={time:O}, found={found}, message at {Offsets[i]}");
        }

        if (tooEarlyMax is not { } most)
            return;
        int first = 0;
        DateTimeOffset latest = DateTimeOffset.MinValue;
        for (; first < Offsets.Count; first++)
        {
            DateTimeOffset counted = first < Times.Count ? Times[first] : Time.GetUtcNow();
            latest = counted > latest ? counted : latest;
            if (latest >= time)
                break;
        }

        long wanted = first == Offsets.Count ? info.PublishedOffset : Offsets[first];
        Assert.True(Math.Max(wanted, info.LogStart) - found <= most,
            $"too early: time={time:O}, found={found}, message at {wanted}");
    }

    public void Dispose()
    {
        _queue?.Dispose();
        Temp.Dispose();
    }
}
