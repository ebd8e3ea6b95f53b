using MappedFileQueues.Packs;

namespace MappedFileQueues.Tests.Packs;

/// <summary>Packs whose volumes are not as they were.</summary>
public sealed class PackRecoveryTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void PutDelete_OfADamagedObject_ReplacesAndRemovesIt(bool isRebuilt)
    {
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            pack.Put("put", [1]);
            pack.Put("deleted", [2]);
            pack.Put("other", [3]);
        }

        string volume = Assert.Single(Volumes());
        long second = VolumeHeader.Length + 48;
        Flip(volume, VolumeHeader.Length + 9);
        Flip(volume, second + 9);
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            Assert.Throws<QueueCorruptException>(() => pack.Get("put"));
            Assert.Throws<QueueCorruptException>(() => pack.Get("deleted"));
            pack.Put("put", [4]);
            Assert.True(pack.Delete("deleted"));
            Assert.False(pack.Delete("deleted"));
            Check(pack);

            // The old bytes are whole again: they are not the newest ones any more.
            Flip(volume, VolumeHeader.Length + 9);
            Flip(volume, second + 9);
            Check(pack);
        }

        if (isRebuilt)
            File.Delete(_temp.PathOf("index.checkpoint"));
        using PackStore reopened = PackStore.Open(_temp.StorePath);
        Check(reopened);
        Assert.True(reopened.Verify().IsWhole);

        static void Check(PackStore pack)
        {
            Assert.Equal([4], pack.Get("put"));
            Assert.Null(pack.Get("deleted"));
            Assert.Equal([3], pack.Get("other"));
            Assert.Equal(2, pack.Count);
        }
    }

    private static void Flip(string file, long position)
    {
        byte[] bytes = File.ReadAllBytes(file);
        bytes[position] ^= 1;
        using FileStream stream = new(file, FileMode.Open, FileAccess.Write, FileShare.ReadWrite);
        stream.Position = position;
        stream.WriteByte(bytes[position]);
    }

    private string[] Volumes() => [.. Directory.GetFiles(_temp.PathOf("volumes")).Order()];
}
