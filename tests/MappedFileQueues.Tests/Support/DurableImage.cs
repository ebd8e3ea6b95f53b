using MappedFileQueues.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Tests.Support;

/// <summary>
/// What would survive a power loss right now, at least: of each file of the log what it held when the last sync that has ended
/// began, and the names that was in the folder when its last flush began.
/// </summary>
internal sealed class DurableImage
{
    private readonly TempStore _store;
    private readonly int _segmentLength;
    private readonly Lock _lock = new();
    private readonly Dictionary<string, (long Number, byte[] Bytes)> _images = [];
    private readonly HashSet<string> _named = [];
    private readonly HashSet<string> _durablyNamed = [];
    private readonly ThreadLocal<(long Number, byte[] Bytes)> _underWay = new();
    private long _count;

    public DurableImage(FaultyDisk disk, TempStore store, int segmentLength)
    {
        (_store, _segmentLength) = (store, segmentLength);
        disk.Before = Note;
    }

    /// <summary>How many syncs of the log there were.</summary>
    public int Syncs { get; private set; }

    /// <summary>Throws when a message would not survive.</summary>
    public void Check(long offset, ReadOnlySpan<byte> message)
    {
        string name = StoreNames.Segment(offset / _segmentLength * _segmentLength);
        byte[] bytes;
        lock (_lock)
        {
            Assert.True(_durablyNamed.Contains(name), $"the name of {name} is not on disk: offset={offset}");
            Assert.True(_images.TryGetValue(name, out (long, byte[] Bytes) image), $"{name} was never synced: offset={offset}");
            bytes = image.Bytes;
        }

        ReadOnlySpan<byte> frame = bytes.AsSpan((int)(offset % _segmentLength));
        Assert.True(FrameHeader.IsMessage(FrameHeader.State(BitConverter.ToUInt64(frame))), $"not on disk: offset={offset}");
        Assert.True(frame.Slice(FrameHeader.Size, message.Length).SequenceEqual(message), $"not on disk: offset={offset}");
    }

    private void Note(DiskCall call, string name)
    {
        bool isSegment = name.StartsWith("commitlog/", StringComparison.Ordinal)
            && !name.EndsWith(WholeFile.TemporarySuffix, StringComparison.Ordinal);
        if (call == DiskCall.Sync && isSegment)
            Begin(name);
        lock (_lock)
        {
            if (call == DiskCall.Renamed)
                _named.Add(name);
            else if (call == DiskCall.SyncEntries && name == StoreNames.CommitLog)
                _durablyNamed.UnionWith(_named);
            else if (call == DiskCall.Synced && isSegment)
                End(name);
        }
    }

    private void Begin(string name)
    {
        long number = Interlocked.Increment(ref _count);
        byte[] bytes = new byte[_segmentLength];
        using FileStream file = new(
            _store.PathOf(name), FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete, bufferSize: 0);
        file.ReadExactly(bytes);
        _underWay.Value = (number, bytes);
    }

    private void End(string name)
    {
        Syncs++;
        if (!_images.TryGetValue(name, out (long Number, byte[]) last) || last.Number < _underWay.Value.Number)
            _images[name] = _underWay.Value;
    }
}
