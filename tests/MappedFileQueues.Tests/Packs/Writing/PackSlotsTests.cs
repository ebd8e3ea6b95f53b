using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Reading;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Packs.Writing;

namespace MappedFileQueues.Tests.Packs.Writing;

/// <summary>
/// More files of volumes than there are slots. Alone: it has 16,384 files open, and tests beside it that had 3,000 more met the
/// limit of the process.
/// </summary>
[Collection(AloneCollection.Name)]
[Trait("Category", "Slow")]
public sealed class PackSlotsTests : IDisposable
{
    private readonly TempStore _temp = TempStore.InMemory();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Open_AnEmptyVolumeTooMany_IsALeftover()
    {
        Guid packId;
        using (var writer = new PackWriter(
            PackOpening.OpenWriter(_temp.StorePath, new PackOptions { VolumeSize = 4096 }, useCheckpoint: true),
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
}
