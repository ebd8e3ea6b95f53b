using System.Globalization;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Hostile;

/// <summary>
/// A store of numbered messages, kept in memory, that is damaged in one way after the other, and the messages that each damage
/// leaves whole.
/// </summary>
internal sealed class DamagedLog : IDisposable
{
    private const int Header = 8;

    private readonly TempStore _folder = TempStore.InMemory();
    private readonly QueueKind _kind;
    private readonly ProducerMode _mode;
    private readonly int _segment;
    private readonly List<Frame> _frames = [];
    private readonly Dictionary<string, byte[]> _files = new(StringComparer.Ordinal);

    public DamagedLog(QueueKind kind, ProducerMode mode, int segment, ChecksumMode checksum = ChecksumMode.WriteAndVerify)
    {
        _kind = kind;
        _mode = mode;
        _segment = segment;
        Checksum = checksum;
    }

    public string Path => _folder.StorePath;

    public ChecksumMode Checksum { get; }

    public int SegmentLength => _segment;

    /// <summary>Every message, in order.</summary>
    public IReadOnlyList<Frame> Frames => _frames;

    /// <summary>Segments by name, as they were before any damage.</summary>
    public IReadOnlyDictionary<string, byte[]> Segments => _files;

    public long End { get; private set; }

    public QueueUnderTest Open(CorruptionPolicy policy) => QueueUnderTest.Open(_kind, new MappedFileQueueOptions
    {
        StorePath = Path,
        SegmentSize = _segment,
        ProducerMode = _mode,
        Checksum = Checksum,
        Corruption = policy,
        ConsumerSpinWaitDuration = TimeSpan.Zero,
        Durability = DurabilityLevel.PageCache,
    });

    /// <summary>Single messages and batches, until the log has this length; then all of it is flushed.</summary>
    public void Fill(QueueUnderTest queue, long length)
    {
        long number = 0;
        while (End < length)
        {
            int count = number % 5 == 0 ? 3 : 1;
            long[] numbers = [.. Enumerable.Range(0, count).Select(i => number + i)];
            long at = count == 1 ? queue.Producer.Produce(number) : queue.Producer.ProduceBatch(numbers);
            foreach (long each in numbers)
            {
                int payload = _kind == QueueKind.Struct ? 24 : Payload.LengthOf(each);
                _frames.Add(new Frame(each, at, payload));
                at = (at + Header + payload + 7) & ~7L;
            }

            End = at;
            number += count;
        }

        queue.Flush();
    }

    /// <summary>
    /// What the files hold now is what every damage begins with. Files that the queue is just making go by themselves.
    /// </summary>
    public void TakePicture()
    {
        foreach (string path in Directory.EnumerateFiles(System.IO.Path.Combine(Path, "commitlog"), "*.log"))
            _files[path] = File.ReadAllBytes(path);
    }

    /// <summary>The files as they were, but for these; an empty content removes the file.</summary>
    public void Write(IReadOnlyDictionary<string, byte[]> damaged)
    {
        foreach ((string path, byte[] content) in _files)
        {
            byte[] bytes = damaged.GetValueOrDefault(path, content);
            if (bytes.Length == 0)
                File.Delete(path);
            else
                WriteOver(path, bytes);
        }
    }

    public void Restore() => Write(_files);

    /// <summary>
    /// The messages that are read: those whose bytes are what they were; with SkipSegment those before each segment's damage.
    /// </summary>
    public List<long> Expected(IReadOnlyDictionary<string, byte[]> damaged, CorruptionPolicy policy)
    {
        var numbers = new List<long>();
        foreach (IGrouping<long, Frame> segment in _frames.GroupBy(frame => frame.Offset - (frame.Offset % _segment)))
        {
            string path = PathOf(segment.Key);
            byte[] now = damaged.GetValueOrDefault(path, _files[path]);
            bool isHit = false;
            foreach (Frame frame in segment)
            {
                int at = (int)(frame.Offset - segment.Key);
                int length = Header + frame.PayloadLength;
                bool isWhole = at + length <= now.Length
                    && now.AsSpan(at, length).SequenceEqual(_files[path].AsSpan(at, length));
                isHit |= !isWhole;
                if (policy == CorruptionPolicy.Throw && isHit)
                    return numbers;
                if (isWhole && (policy == CorruptionPolicy.SkipMessage || !isHit))
                    numbers.Add(frame.Number);
            }
        }

        return numbers;
    }

    /// <summary>What a reader without a queue finds, and the damage that it tells of. Damage that it throws ends it.</summary>
    public (List<long> Numbers, List<CorruptionSkippedEventArgs> Skipped) Read(CorruptionPolicy policy)
    {
        using MappedFileReader reader = MappedFileReader.Open(Path, default, policy);
        List<CorruptionSkippedEventArgs> skipped = [];
        reader.CorruptionSkipped += (_, one) => skipped.Add(one);
        List<long> numbers = [];
        try
        {
            while (reader.TryRead(out ReadOnlySpan<byte> message))
                numbers.Add(_kind == QueueKind.Struct
                    ? System.Runtime.InteropServices.MemoryMarshal.Read<Tick>(message).Verify()
                    : Payload.Verify(message).Number);
        }
        catch (QueueCorruptException) when (policy == CorruptionPolicy.Throw)
        {
        }

        return (numbers, skipped);
    }

    public static List<long> Consume(ConsumerUnderTest consumer, CorruptionPolicy policy)
    {
        List<long> numbers = [];
        try
        {
            while (consumer.TryConsume(out long number))
            {
                numbers.Add(number);
                consumer.Commit();
            }
        }
        catch (QueueCorruptException) when (policy == CorruptionPolicy.Throw)
        {
        }

        return numbers;
    }

    public string PathOf(long segmentStart) => System.IO.Path.Combine(
        Path, "commitlog", segmentStart.ToString("D20", CultureInfo.InvariantCulture) + ".log");

    public void Dispose() => _folder.Dispose();

    /// <summary>In place, not by a new file: queues may have it mapped.</summary>
    private static void WriteOver(string path, byte[] bytes)
    {
        using FileStream file = new(path, FileMode.OpenOrCreate, FileAccess.Write, FileShare.ReadWrite | FileShare.Delete);
        file.Write(bytes);
        file.SetLength(bytes.Length);
    }

    internal readonly record struct Frame(long Number, long Offset, int PayloadLength)
    {
        public long End => (Offset + Header + PayloadLength + 7) & ~7L;
    }
}
