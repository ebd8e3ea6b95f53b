using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Reading;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Packs.Writing;

namespace MappedFileQueues.Tests.Packs.Writing;

/// <summary>As many volumes as there are slots.</summary>
[Trait("Category", "Slow")]
public sealed class PackFullTests : IDisposable
{
    private const int VolumeLength = 4096;

    private readonly TempStore _temp = TempStore.InMemory();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Put_NoSlotIsLeft_ThrowsMakesNoFileAndACompactionMakesRoom()
    {
        var options = new PackOptions { VolumeSize = VolumeLength };
        using (var writer = new PackWriter(PackOpening.OpenWriter(_temp.StorePath, options, useCheckpoint: true), options))
        {
            for (int i = 0; i < 4; i++)
                writer.Append(NeedleKind.Value, "key"u8, new byte[3000], null);
            AddDummies(writer, first: 5, count: IndexEntry.SlotCount - 5);
            string[] files = Directory.GetFiles(_temp.PathOf("volumes"));

            // The last slots are for tombstones and for the compaction.
            Assert.Equal(1, writer.Core.Volumes.FreeCount);
            for (int i = 0; i < 3; i++)
                Assert.Throws<PackFullException>(() => writer.Append(NeedleKind.Value, "key"u8, new byte[3000], null));
            Assert.Equal(files, Directory.GetFiles(_temp.PathOf("volumes")));

            // The first three become one.
            Assert.Equal(3, writer.Compact(0, CancellationToken.None).VolumesReplaced);
            Assert.True(PackQueries.Contains(writer.Core, "key"u8));
            Assert.Equal(3, writer.Core.Volumes.FreeCount);
            Assert.True(writer.Append(NeedleKind.Value, "key"u8, new byte[3000], null));
        }
    }

    /// <summary>
    /// A pack with 16,383 volumes refused 29 of 30 deletes, for a tombstone needs room too: it could never become smaller.
    /// </summary>
    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    public void Delete_NoSlotIsLeft_AllAreDeletedAndACompactionMakesRoom(int freeCount)
    {
        const int Count = 100;
        var options = new PackOptions { VolumeSize = VolumeLength };
        using var writer = new PackWriter(PackOpening.OpenWriter(_temp.StorePath, options, useCheckpoint: true), options);
        for (int i = 0; i < Count; i++)
            writer.Append(NeedleKind.Value, Key(i), new byte[300], null);
        int volumes = writer.Core.Volumes.InOrder.Count;
        AddDummies(writer, first: volumes + 1, count: IndexEntry.SlotCount - volumes - freeCount);
        Assert.Throws<PackFullException>(() =>
        {
            for (int i = 0; i < Count; i++)
                writer.Append(NeedleKind.Value, Key(Count + i), new byte[300], null);
        });

        for (int i = 0; i < Count; i++)
            Assert.True(writer.Append(NeedleKind.Tombstone, Key(i), default, null));
        Assert.True(writer.Core.Volumes.FreeCount >= 1);
        PackCompaction compaction = writer.Compact(0.3, CancellationToken.None);

        Assert.True(compaction.VolumesReplaced > 1);
        Assert.True(writer.Core.Volumes.FreeCount > 2);
        Assert.True(writer.Append(NeedleKind.Value, Key(0), new byte[300], null));
        Assert.True(PackQueries.Contains(writer.Core, Key(0)));
        Assert.False(PackQueries.Contains(writer.Core, Key(1)));
    }

    /// <summary>
    /// An opening cannot end a torn volume in a full pack. When a compaction had made room, the next volume did not say where the
    /// torn one ends, and what the crash had left of a put was damage, which made all keys before it doubtful.
    /// </summary>
    [Fact]
    public void Put_LastVolumeIsTornAndWasNotEnded_EndsIt()
    {
        var options = new PackOptions { VolumeSize = VolumeLength };
        using (PackStore pack = PackStore.Open(_temp.StorePath, options))
            pack.Put("before", [1]);
        OpenedPack opened = PackOpening.OpenWriter(_temp.StorePath, options, useCheckpoint: true);
        using (var writer = new PackWriter(opened with { Active = null }, options))
        {
            Volume torn = Assert.Single(writer.Core.Volumes.InOrder);
            torn.File.WriteAt(new byte[48], torn.Tail);
            Assert.True(writer.Append(NeedleKind.Value, "after"u8, [2], null));
            Assert.Equal(2, writer.Core.Volumes.InOrder.Count);
            Assert.True(writer.Verify().IsWhole);
        }

        File.Delete(_temp.PathOf("index.checkpoint"));
        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        Assert.Empty(reader.Damages);
        Assert.Equal([1], reader.Get("before"));
        Assert.Equal([2], reader.Get("after"));
        Assert.False(reader.Contains("never"));
    }

    private static byte[] Key(int number) => System.Text.Encoding.UTF8.GetBytes($"key {number}");

    /// <summary>Volumes full of what is alive, which only the table knows.</summary>
    private static void AddDummies(PackWriter writer, int first, int count)
    {
        for (int number = first; number < first + count; number++)
        {
            var name = new VolumeName((uint)number, (uint)number, 0);
            var volume = new Volume(name, new MemoryFile(name.Path), writer.Core.Meta.PackId) { Tail = VolumeLength };
            volume.AddLive(VolumeLength - VolumeHeader.Length, 1);
            writer.Core.Volumes.Add(volume);
        }
    }
}
