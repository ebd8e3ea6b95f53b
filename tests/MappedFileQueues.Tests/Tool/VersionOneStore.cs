using System.Buffers.Binary;
using System.Globalization;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// Writes a folder as 1.x leaves it, made from a description of its layout: the bytes of structs with 0xFF after each, or length,
/// bytes and 0xFF of messages, in segments that are named by their offset, and files of 8 bytes with offsets.
/// </summary>
internal sealed class VersionOneStore
{
    private readonly string _path;
    private readonly long _segmentSize;
    private readonly int? _structSize;
    private readonly SortedDictionary<long, byte[]> _segments = [];

    private VersionOneStore(string path, long segmentSize, int? structSize)
    {
        (_path, _segmentSize, _structSize) = (path, segmentSize, structSize);
        Directory.CreateDirectory(LogPath);
        Directory.CreateDirectory(Path.Combine(path, "offset"));
    }

    /// <summary>Where the next message goes.</summary>
    public long Producer { get; set; }

    /// <summary>Where the consumer is; null: there is no file.</summary>
    public long? Consumer { get; set; } = 0;

    /// <summary>What was forced to disk, in a store of structs; null: there is no file.</summary>
    public long? Confirmed { get; set; }

    /// <summary>The folder of the segments.</summary>
    public string LogPath => Path.Combine(_path, "commitlog");

    /// <summary>The starts of the segments.</summary>
    public IEnumerable<long> Starts => _segments.Keys;

    public static VersionOneStore OfStructs(string path, int structSize, long segmentSize) =>
        new(path, segmentSize, structSize) { Confirmed = 0 };

    public static VersionOneStore OfMessages(string path, long segmentSize) => new(path, segmentSize, null);

    /// <summary>The bytes from an offset to the end of its segment.</summary>
    public Span<byte> At(long offset)
    {
        (long start, byte[] bytes) = _segments.Last(segment => segment.Key <= offset);
        return bytes.AsSpan((int)(offset - start));
    }

    /// <summary>Produces messages; returns where they begin.</summary>
    public List<long> Produce(params IEnumerable<byte[]> messages)
    {
        List<long> offsets = [];
        foreach (byte[] message in messages)
        {
            byte[] bytes = _structSize is null
                ? [.. BitConverter.GetBytes(message.Length), .. message, 0xFF]
                : [.. message, 0xFF];
            Span<byte> place = _structSize is null ? PlaceOfMessage(bytes.Length) : PlaceOfStruct(bytes.Length);
            bytes.CopyTo(place);
            offsets.Add(Producer);
            Producer += bytes.Length;
        }

        Write();
        return offsets;
    }

    /// <summary>Removes a segment.</summary>
    public void Remove(long start)
    {
        _segments.Remove(start);
        File.Delete(Path.Combine(LogPath, NameOf(start)));
    }

    /// <summary>Writes everything to its files.</summary>
    public void Write()
    {
        foreach ((long start, byte[] bytes) in _segments)
            File.WriteAllBytes(Path.Combine(LogPath, NameOf(start)), bytes);
        WriteOffset("producer.offset", Producer);
        WriteOffset("consumer.offset", Consumer);
        WriteOffset("producer.confirmed.offset", Confirmed);
    }

    private static string NameOf(long start) => start.ToString("D20", CultureInfo.InvariantCulture);

    private Span<byte> PlaceOfStruct(int length)
    {
        long used = _segmentSize / length * length;
        long start = Producer / used * used;
        if (!_segments.ContainsKey(start))
            _segments.Add(start, new byte[used + 1]);
        return At(Producer);
    }

    private Span<byte> PlaceOfMessage(int length)
    {
        if (_segments.Count > 0 && At(Producer) is var rest && Producer < _segments.Keys.Max() + _segmentSize)
        {
            if (length <= rest.Length)
                return rest;
            if (rest.Length >= 6)
                rest[0] = 0xEE;
        }

        _segments.Add(Producer, new byte[_segmentSize]);
        return At(Producer);
    }

    private void WriteOffset(string name, long? offset)
    {
        if (offset is null)
            return;
        byte[] bytes = new byte[sizeof(long)];
        BinaryPrimitives.WriteInt64LittleEndian(bytes, offset.Value);
        File.WriteAllBytes(Path.Combine(_path, "offset", name), bytes);
    }
}
