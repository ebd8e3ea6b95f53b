using MappedFileQueues.Packs;

namespace MappedFileQueues.Tests.Packs;

/// <summary>As many volumes as there are slots.</summary>
public sealed class PackFullTests : IDisposable
{
    private const int VolumeLength = 4096;

    private readonly TempStore _temp = Directory.Exists("/dev/shm") ? new TempStore("/dev/shm") : new TempStore();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Put_NoSlotIsLeft_ThrowsMakesNoFileAndACompactionMakesRoom()
    {
        var options = new PackOptions { VolumeSize = VolumeLength };
        using (var writer = new PackWriter(PackOpening.OpenWriter(_temp.StorePath, options, useCheckpoint: true), options))
        {
            for (int i = 0; i < 3; i++)
                writer.Append(NeedleKind.Value, "key"u8, new byte[3000], null);
            AddDummies(writer, first: 4, count: IndexEntry.SlotCount - 4);
            string[] files = Directory.GetFiles(_temp.PathOf("volumes"));

            // The last slot is for the compaction.
            Assert.Equal(1, writer.Core.Volumes.FreeCount);
            for (int i = 0; i < 3; i++)
                Assert.Throws<QueueFullException>(() => writer.Append(NeedleKind.Value, "key"u8, new byte[3000], null));
            Assert.Equal(files, Directory.GetFiles(_temp.PathOf("volumes")));

            // The first two one by one, and then together.
            Assert.Equal(4, writer.Compact(0, CancellationToken.None).VolumesReplaced);
            Assert.True(PackView.Contains(writer.Core, "key"u8));
            Assert.Equal(2, writer.Core.Volumes.FreeCount);
            Assert.True(writer.Append(NeedleKind.Value, "key"u8, new byte[3000], null));
        }
    }

    [Fact]
    public void Open_AnEmptyVolumeTooMany_IsALeftover()
    {
        Guid packId;
        using (var writer = new PackWriter(
            PackOpening.OpenWriter(_temp.StorePath, new PackOptions { VolumeSize = VolumeLength }, useCheckpoint: true),
            new PackOptions()))
        {
            writer.Append(NeedleKind.Value, "key"u8, [1], null);
            packId = writer.Core.Meta.PackId;
        }

        for (uint number = 2; number <= IndexEntry.SlotCount + 1; number++)
        {
            var name = new VolumeName(number, number, 0);
            File.WriteAllBytes(_temp.PathOf(name.Path), new VolumeHeader(name, 0, 1).ToBytes(packId));
        }

        using (PackReader reader = PackStore.OpenReader(_temp.StorePath))
            Assert.Equal([1], reader.Get("key"));
        using PackStore pack = PackStore.Open(_temp.StorePath);
        Assert.Equal([1], pack.Get("key"));
        Assert.Empty(pack.Damages);
        Assert.Equal(IndexEntry.SlotCount, Directory.GetFiles(_temp.PathOf("volumes")).Length);
    }

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
