using System.Buffers.Binary;
using System.Text;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Segments;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// A small store with a bit of everything, kept in memory and written anew for each damage: four segments of 4 KiB and one
/// made ahead, single messages, some with headers, and batches, padding at the ends of segments and of an abandoned claim, a
/// claim of a dead producer, a part that is consumed, a checkpoint in the middle.
/// </summary>
internal sealed class HostileStore
{
    public const int SegmentLength = 4096;
    public const string ConsumerName = "reader";

    private const int CommittedCount = 20;
    private const int AppendedLength = 77;
    private const int DeadSlot = 7;
    private const uint DeadGeneration = 3;

    private static readonly int[] s_lengths = [0, 1, 7, 8, 9, 64, 33, 250, 5, 16, 511, 100, 24];
    private static readonly int[] s_batch = [40, 0, 17, 8, 120];
    private static readonly Guid s_earlierBoot = new("00000000-0000-4000-8000-00000000beef");

    private readonly List<HostileMessage> _messages = [];
    private readonly List<string> _directories = [];
    private readonly bool _isStruct;

    public HostileStore(string path, bool isStruct, bool verifies, bool isCut, CorruptionPolicy policy)
    {
        Path = path;
        Policy = policy;
        IsCut = isCut;
        Verifies = verifies;
        _isStruct = isStruct;
        Make();
        RemoveSpareSegments();
        if (isCut)
            MoveToEarlierBoot();
        else
            ForgeDeadClaim();
        TakePicture();
    }

    public string Path { get; }

    /// <summary>Of every consumer and reader.</summary>
    public CorruptionPolicy Policy { get; }

    /// <summary>The store looks as if the machine had been started anew since it was used.</summary>
    public bool IsCut { get; }

    /// <summary>Consumers verify checksums; a reader without a queue always does.</summary>
    public bool Verifies { get; }

    /// <summary>All messages, in order.</summary>
    public IReadOnlyList<HostileMessage> Messages => _messages;

    /// <summary>Every file's content, by its name relative to the store.</summary>
    public SortedDictionary<string, byte[]> Files { get; } = new(StringComparer.Ordinal);

    /// <summary>Where the consumer continues.</summary>
    public long CommittedOffset { get; private set; }

    /// <summary>Everything before it was flushed.</summary>
    public long FlushedOffset { get; private set; }

    public long TailOffset { get; private set; }

    public HostileQueue Open(ProducerMode mode = ProducerMode.Shared) => HostileQueue.Open(_isStruct, new MappedFileQueueOptions
    {
        StorePath = Path,
        SegmentSize = SegmentLength,
        ProducerMode = mode,
        Checksum = Verifies ? ChecksumMode.WriteAndVerify : ChecksumMode.WriteOnly,
        Corruption = Policy,
        ConsumerSpinWaitDuration = TimeSpan.Zero,
        // What is damaged here was never flushed: recovery walks over all of it.
        Durability = DurabilityLevel.PageCache,
    });

    public HostileReading Read(QueueStart start = default)
    {
        MappedFileReader? reader = null;
        try
        {
            return HostileReading.Run(() =>
            {
                reader = MappedFileReader.Open(Path, start, Policy);
                return () => reader.TryRead(out ReadOnlySpan<byte> message) ? (reader.MessageOffset, message.ToArray()) : null;
            });
        }
        finally
        {
            reader?.Dispose();
        }
    }

    /// <summary>Appends one more message than the store was made with; the number tells those of one trial apart.</summary>
    public long Append(HostileQueue queue, int number) => queue.Append(_messages.Count + number, AppendedLength);

    public byte[] AppendedBytes(int number) => HostileQueue.BytesOf(_isStruct, _messages.Count + number, AppendedLength);

    public bool IsAppended(ReadOnlySpan<byte> bytes) =>
        bytes.SequenceEqual(AppendedBytes(0)) || bytes.SequenceEqual(AppendedBytes(1));

    /// <summary>Writes the store as it was made, whatever became of it since.</summary>
    public void Restore()
    {
        foreach (string name in Files.Keys.Where(name => new FileInfo(System.IO.Path.Combine(Path, name)).LinkTarget is not null))
            File.Delete(System.IO.Path.Combine(Path, name));
        foreach (string name in _directories)
        {
            if (File.Exists(System.IO.Path.Combine(Path, name)))
                File.Delete(System.IO.Path.Combine(Path, name));
            Directory.CreateDirectory(System.IO.Path.Combine(Path, name));
        }

        foreach (string path in Directory.EnumerateDirectories(Path, "*", SearchOption.AllDirectories).ToList())
        {
            if (Directory.Exists(path) && !_directories.Contains(System.IO.Path.GetRelativePath(Path, path)))
                Directory.Delete(path, recursive: true);
        }

        foreach (string path in Directory.EnumerateFiles(Path, "*", SearchOption.AllDirectories).ToList())
        {
            if (!Files.ContainsKey(System.IO.Path.GetRelativePath(Path, path)))
                File.Delete(path);
        }

        foreach ((string name, byte[] content) in Files)
            File.WriteAllBytes(System.IO.Path.Combine(Path, name), content);
    }

    private void Make()
    {
        using (HostileQueue queue = Open())
        {
            AppendUpTo(queue, 5000);
            AppendBatch(queue);
            AppendUpTo(queue, 8500);
            AppendBatch(queue);
            FlushedOffset = queue.Flush();
            AppendUpTo(queue, 12_700);
        }

        using (HostileQueue queue = Open())
            queue.Consume(ConsumerName, CommittedCount);
        CommittedOffset = _messages[CommittedCount].Offset;
        TailOffset = (_messages[^1].End + 7) & ~7L;
    }

    private void AppendUpTo(HostileQueue queue, long offset)
    {
        while (_messages.Count == 0 || _messages[^1].End < offset)
        {
            int index = _messages.Count;
            int length = s_lengths[index % s_lengths.Length];
            long at = queue.Append(index, length);
            byte[] bytes = HostileQueue.BytesOf(_isStruct, index, length);
            int block = new HeaderFields(HostileMessage.Headers(index)).BlockLength;
            _messages.Add(new HostileMessage(at, at, at + FrameHeader.Size + block + bytes.Length, bytes, block));
        }
    }

    private void AppendBatch(HostileQueue queue)
    {
        int first = _messages.Count;
        long start = queue.AppendBatch(first, s_batch);
        List<(long Offset, byte[] Bytes)> parts = [];
        long at = start;
        for (int i = 0; i < s_batch.Length; i++)
        {
            byte[] bytes = HostileQueue.BytesOf(_isStruct, first + i, s_batch[i]);
            parts.Add((at, bytes));
            at += FrameHeader.FrameLength(bytes.Length);
        }

        long end = parts[^1].Offset + FrameHeader.Size + parts[^1].Bytes.Length;
        _messages.AddRange(parts.Select(part => new HostileMessage(part.Offset, start, end, part.Bytes)));
    }

    /// <summary>All but the segment after the tail's: tiny segments are made many at once, and they are all alike.</summary>
    private void RemoveSpareSegments()
    {
        foreach (string path in Directory.EnumerateFiles(System.IO.Path.Combine(Path, StoreNames.CommitLog)).ToList())
        {
            bool isSegment = StoreNames.TryParseSegment(System.IO.Path.GetFileName(path), out long start);
            if (isSegment && start > TailOffset + SegmentLength)
                File.Delete(path);
        }
    }

    /// <summary>The tail's segment ends with a claim whose owner is gone: what a kill between claim and publish leaves.</summary>
    private void ForgeDeadClaim()
    {
        const int length = 48;
        long segment = TailOffset - (TailOffset % SegmentLength);
        string path = System.IO.Path.Combine(Path, StoreNames.Segment(segment));
        byte[] bytes = File.ReadAllBytes(path);
        ulong claim = FrameHeader.Make(
            FrameHeader.LowHalf(length, FrameState.Claimed), SlotLayout.Owner(DeadSlot, DeadGeneration));
        BinaryPrimitives.WriteUInt64LittleEndian(bytes.AsSpan((int)(TailOffset - segment)), claim);
        Encoding.ASCII.GetBytes("half a payload").CopyTo(bytes, (int)(TailOffset - segment) + FrameHeader.Size);
        File.WriteAllBytes(path, bytes);
        TailOffset += FrameHeader.FrameLength(length);
    }

    private void MoveToEarlierBoot()
    {
        using HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(Path, create: false, mode: null)!;
        StoreMeta meta = StoreMetaFile.Read(directory)!;
        using (ControlPage control = ControlPage.Open(directory))
        {
            control.BootId = s_earlierBoot;
            control.SealColdBlock(meta.StoreId);
        }

        using PlatformFile file = directory.Open(StoreNames.Checkpoint, FileOpening.ReadWrite)!;
        byte[] bytes = new byte[CheckpointRecord.Length];
        for (int slot = 0; slot < 2; slot++)
        {
            file.ReadAt(bytes, slot * CheckpointRecord.SlotDistance);
            if (CheckpointRecord.Parse(bytes, meta.StoreId) is { } record)
                file.WriteAt((record with { BootId = s_earlierBoot }).ToBytes(meta.StoreId), record.Position);
        }
    }

    private void TakePicture()
    {
        foreach (string path in Directory.EnumerateDirectories(Path, "*", SearchOption.AllDirectories))
            _directories.Add(System.IO.Path.GetRelativePath(Path, path));
        _directories.Sort(StringComparer.Ordinal);
        foreach (string path in Directory.EnumerateFiles(Path, "*", SearchOption.AllDirectories))
            Files.Add(System.IO.Path.GetRelativePath(Path, path), File.ReadAllBytes(path));
    }
}
