using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Tests.Crash;

/// <summary>The raw words of a store, for tests that look at them, or that change one as another process would.</summary>
internal sealed unsafe class StoreWords : IDisposable
{
    private readonly HeldDirectory _directory;

    public StoreWords(string path)
    {
        _directory = CurrentPlatform.Services.OpenDirectory(path, create: false, mode: null)!;
        Meta = StoreMetaFile.Read(_directory)!;
        Control = ControlPage.Open(_directory);
    }

    public StoreMeta Meta { get; }

    public ControlPage Control { get; }

    public ulong WakeSequence => SharedWord.ReadAcquire(Control.WakeSequence);

    public ulong WaiterFlag => SharedWord.ReadAcquire(Control.WaiterFlag);

    public long TailHint => SharedWord.ReadAcquire(Control.TailHint);

    public long DirectoryFlushed => SharedWord.ReadAcquire(Control.DirectoryFlushed);

    /// <summary>The header of the frame at an offset, as the file holds it.</summary>
    public ulong HeaderAt(long offset) => BitConverter.ToUInt64(BytesAt(offset, sizeof(ulong)));

    public FrameState StateAt(long offset) => FrameHeader.State(HeaderAt(offset));

    /// <summary>Bytes of the log that lie in one segment.</summary>
    public byte[] BytesAt(long offset, int length)
    {
        byte[] bytes = new byte[length];
        using PlatformFile file = OpenSegment(offset);
        Assert.Equal(length, file.ReadAt(bytes, offset % Meta.SegmentLength));
        return bytes;
    }

    /// <summary>Damages the log.</summary>
    public void WriteAt(long offset, params ReadOnlySpan<byte> bytes)
    {
        using PlatformFile file = OpenSegment(offset);
        file.WriteAt(bytes, offset % Meta.SegmentLength);
    }

    public bool HasSegment(long offset) => _directory.Identify(SegmentName(offset)) is not null;

    /// <summary>As another process whose flush has failed, which then dies before it wakes anybody.</summary>
    public static void Poison(string path)
    {
        using var words = new StoreWords(path);
        SharedWord.SetBits(words.Control.WaiterFlag, ControlLayout.PoisonBit);
    }

    /// <summary>What retention does: the log start first, then the files.</summary>
    public void RemoveBelow(long logStart)
    {
        SharedWord.RaiseTo(Control.LogStart, logStart);
        Control.SealColdBlock(Meta.StoreId);
        for (long start = 0; start < logStart; start += Meta.SegmentLength)
            _directory.Delete(SegmentName(start));
    }

    /// <summary>
    /// As if nothing had been flushed so far: when the background writes its checkpoints depends on the machine's load.
    /// </summary>
    public void ResetCheckpoint() => SetCheckpoint(0);

    /// <summary>As if the background had written one just now.</summary>
    public void SetCheckpoint(long offset) =>
        new CheckpointFile(_directory, Meta.StoreId).WriteBoth(offset, 0, Control.BootId);

    /// <summary>As if no entry of `commitlog/` had reached the disk yet.</summary>
    public void ForgetDirectoryFlush() => SharedWord.WriteRelease(Control.DirectoryFlushed, 0);

    public uint GenerationOf(int slot)
    {
        byte[] bytes = new byte[sizeof(uint)];
        using PlatformFile file = _directory.Open(StoreNames.Slots, FileOpening.Read)!;
        file.ReadAt(bytes, SlotLayout.EntryAt(slot));
        return BitConverter.ToUInt32(bytes);
    }

    public void SetGeneration(int slot, uint generation)
    {
        using PlatformFile file = _directory.Open(StoreNames.Slots, FileOpening.ReadWrite)!;
        file.WriteAt(BitConverter.GetBytes(generation), SlotLayout.EntryAt(slot));
    }

    public PlatformLock? TryLock(string name, LockKind kind) => _directory.TryLock(name, kind);

    public void Dispose()
    {
        Control.Dispose();
        _directory.Dispose();
    }

    private string SegmentName(long offset) => StoreNames.Segment(offset - (offset % Meta.SegmentLength));

    private PlatformFile OpenSegment(long offset) => _directory.Open(SegmentName(offset), FileOpening.ReadWrite)!;
}
