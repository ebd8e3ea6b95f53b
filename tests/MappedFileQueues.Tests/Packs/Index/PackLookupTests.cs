using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Reading;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Tests.Packs.Index;

/// <summary>Looks at an index over volumes in memory, whose reads the test can stop at.</summary>
public sealed class PackLookupTests : IDisposable
{
    private readonly TempStore _temp = new();
    private readonly PackCore _core;

    public PackLookupTests()
    {
        HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(_temp.StorePath, create: true, mode: null)!;
        var meta = new PackMeta(Guid.NewGuid(), PackMeta.VolumeLengthMin, DateTimeOffset.UnixEpoch);
        _core = new PackCore(directory, meta, new PackAccess { Owner = typeof(PackReader) });
    }

    public void Dispose()
    {
        _core.Dispose();
        _core.Directory.Dispose();
        _temp.Dispose();
    }

    /// <summary>
    /// A thread has asked the index, and before it looks into the volume a compaction moves the needle to another one, frees the
    /// slot, and a new volume takes it. At the old position stands a valid needle of another key.
    /// </summary>
    [Fact]
    public void TryFind_SlotIsTakenByAnotherVolumeMeanwhile_FindsTheMovedNeedle()
    {
        Volume first = Add(1, "neighbour");
        Volume old = Add(2, "key");
        Volume made = Add(3, "key");
        ulong hash = HashOf("key");
        int length = LengthOf("key");
        ulong before = _core.Layout.Pack(hash, old.Slot, VolumeHeader.Length, length);

        // Another key with the same tag, which is looked at first.
        _core.Index.Add(hash, _core.Layout.Pack(hash, first.Slot, VolumeHeader.Length, LengthOf("neighbour")));
        _core.Index.Add(hash, before);
        bool isMoved = false;
        ((MemoryFile)first.File).BeforeRead = () =>
        {
            if (isMoved)
                return;
            isMoved = true;
            _core.Index.Replace(hash, before, _core.Layout.Pack(hash, made.Slot, VolumeHeader.Length, length));
            _core.Volumes.Remove(old);
            Assert.Equal(old.Slot, Add(4, "other").Slot);
        };

        Assert.True(PackQueries.Contains(_core, "key"u8));
        Assert.True(isMoved);
    }

    [Fact]
    public void TryFindPlace_SectorCannotBeRead_IsTakenForTheKeys()
    {
        Volume volume = Add(1, "key");
        ulong hash = HashOf("key");
        ulong entry = _core.Layout.Pack(hash, volume.Slot, VolumeHeader.Length, LengthOf("key"));
        _core.Index.Add(hash, entry);
        ((MemoryFile)volume.File).BeforeRead = static () => throw FaultyDisk.Broken("volume");

        Assert.Throws<QueueDiskException>(() => PackQueries.Contains(_core, "key"u8));
        Assert.True(_core.TryFindPlace("key"u8, hash, out NeedlePlace place));
        Assert.Equal((entry, volume, false), (place.Entry, place.Volume, place.IsReadable));
        Assert.False(_core.TryFindPlace("other"u8, HashOf("other"), out _));
    }

    [Fact]
    public void TryFind_DisposedAndNotThere_Throws()
    {
        _core.Dispose();

        Assert.Throws<ObjectDisposedException>(() => PackQueries.Contains(_core, "key"u8));
    }

    private static NeedleSource Needle(string key) => new(NeedleKind.Value, System.Text.Encoding.UTF8.GetBytes(key), [1, 2, 3]);

    private static int LengthOf(string key)
    {
        using NeedleSource source = Needle(key);
        return source.Layout.Length;
    }

    private ulong HashOf(string key) => _core.Lookup.HashOf(System.Text.Encoding.UTF8.GetBytes(key));

    /// <summary>A volume in the first free slot with one needle of this key.</summary>
    private Volume Add(uint number, string key)
    {
        var volume = new Volume(new VolumeName(number, number, 0), new MemoryFile($"volume {number}"), _core.Meta.PackId);
        using NeedleSource source = Needle(key);
        source.WriteTo(volume, VolumeHeader.Length, sequence: number);
        volume.Tail = VolumeHeader.Length + source.Layout.Length;
        _core.Volumes.Add(volume);
        return volume;
    }
}
