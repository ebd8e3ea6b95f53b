using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Log.Opening;

/// <summary>
/// Opening on a full disk a store whose control page or table of slots is missing. The story: the file was made with its full
/// length, its blocks were refused, and the opener threw, as it should; the next one found a file of the right length, took it
/// for whole, and was killed by its first store into the hole. Children open, since that would kill the test too.
/// </summary>
[Trait("Category", "Slow")]
public sealed class FullDiskTwiceTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData("control")]
    [InlineData("locks/slots")]
    [InlineData("control", "--portable")]
    [InlineData("locks/slots", "--portable")]
    public void Open_FileMissingOnAFullDisk_ThrowsEachTimeAndWorksOnceSpaceIsFreed(string missing, params string[] platform)
    {
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root);
        string path = disk.PathOf("store");
        Refusal.MakeStore(path);
        File.Delete(Path.Combine(path, missing));
        File.WriteAllBytes(disk.PathOf("ballast"), new byte[new DriveInfo(disk.Path).AvailableFreeSpace]);

        for (int round = 0; round < 3; round++)
            Assert.StartsWith("ERROR QueueDiskException 28 ", Open(path, platform), StringComparison.Ordinal);

        disk.Free("ballast");
        Assert.Equal("OK 3", Open(path, platform));
    }

    private static string Open(string path, string[] platform)
    {
        using ChildProcess child = ChildProcess.StartPeer([.. platform, "open", "attach", path]);
        string answer = child.WaitForLine(_ => true);
        child.ExpectExit();
        return answer;
    }
}
