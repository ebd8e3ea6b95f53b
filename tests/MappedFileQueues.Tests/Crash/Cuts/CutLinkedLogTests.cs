using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Crash.Cuts;

/// <summary>
/// A store whose `commitlog` is a link to a folder on another file system, a faster disk say. The story: after a power loss the
/// later segments could not be renamed into `salvage/`, and the store could not be opened any more.
/// </summary>
[Trait("Category", "Slow")]
public sealed class CutLinkedLogTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Recover_LogOnAnotherFileSystem_SetsTheRestAside()
    {
        const int Torn = 50;
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root);
        using CutStore cut = CutStore.Make(segmentSize: 65536, count: 1500);
        cut.Damage(Torn);
        byte[] lost = cut.BytesFrom(Torn);
        string logs = Path.Combine(cut.Store.Path, "commitlog");
        byte[][] later = [.. Directory.GetFiles(logs).Order(StringComparer.Ordinal).Skip(1).Select(File.ReadAllBytes)
            .Where(bytes => bytes.Any(value => value != 0))];
        Assert.True(later.Length >= 2, "there are segments behind the tail's");
        foreach (string file in Directory.GetFiles(logs))
            File.Copy(file, disk.PathOf(Path.GetFileName(file)));
        Directory.Delete(logs, recursive: true);
        Directory.CreateSymbolicLink(logs, disk.Path);

        cut.Recover();

        Assert.Equal(cut.Texts.Take(Torn), cut.Store.Peek());
        Assert.Single(Directory.GetFiles(disk.Path));
        string[] salvaged = [.. Directory.GetFiles(Path.Combine(cut.Store.Path, "salvage")).Order(StringComparer.Ordinal)];
        Assert.Equal(later.Length + 1, salvaged.Length);
        Assert.Equal(lost, File.ReadAllBytes(salvaged[0]).Concat(new byte[lost.Length]).Take(lost.Length));
        for (int i = 0; i < later.Length; i++)
            Assert.Equal(later[i], File.ReadAllBytes(salvaged[i + 1]).Concat(new byte[later[i].Length]).Take(later[i].Length));
        cut.Store.ExpectHealthy([.. cut.Texts.Take(Torn)]);
    }
}
