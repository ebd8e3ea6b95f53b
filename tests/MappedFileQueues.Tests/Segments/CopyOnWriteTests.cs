using System.Globalization;
using MappedFileQueues.Tests.Log.Opening;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Segments;

/// <summary>
/// A store on btrfs, full or with a quota. btrfs writes every block to a new place, so a store into a mapped page needed free
/// room although the segment had its blocks: each producer was killed (SIGBUS, exit code 134) where it gets errno 28 or 122 on
/// other file systems. The files of a store are now made to be overwritten in place. A child fills the disk.
/// </summary>
[Trait("Category", "Slow")]
public sealed class CopyOnWriteTests : IDisposable
{
    private const int Enospc = 28;
    private const int Edquot = 122;
    private const int DiskLengthMiB = 200;
    private const string SegmentSize = "4194304";

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(false, "exclusive")]
    [InlineData(true, "shared")]
    public void Append_BtrfsIsFull_ThrowsLosesNothingAndGoesOn(bool hasQuota, string mode)
    {
        using MountedFileSystem disk = MountedFileSystem.Make("btrfs", _temp.Root, DiskLengthMiB);
        string folder = disk.PathOf("user");
        MountedFileSystem.Run("btrfs", "subvolume", "create", folder);
        if (hasQuota)
        {
            MountedFileSystem.Run("btrfs", "quota", "enable", disk.Path);
            MountedFileSystem.Run("btrfs", "qgroup", "limit", "40M", folder);
        }

        // The folder is there already, as the place of a store often is.
        string path = Path.Combine(folder, "store");
        Directory.CreateDirectory(path);
        string ballast = Path.Combine(folder, "ballast");
        File.WriteAllBytes(ballast, new byte[16 << 20]);
        using ChildProcess child = ChildProcess.StartPeer("fill", path, SegmentSize, mode, "3000");

        string full = child.WaitForLine(line => line.StartsWith("FULL ", StringComparison.Ordinal));
        Assert.StartsWith($"FULL {(hasQuota ? Edquot : Enospc)} ", full, StringComparison.Ordinal);
        int count = int.Parse(full.Split(' ')[2], CultureInfo.InvariantCulture);
        child.WaitForLine(line => line.StartsWith("COMMITTED ", StringComparison.Ordinal));
        File.Delete(ballast);
        // The room is there only when the deletion is on disk.
        MountedFileSystem.Run("btrfs", "filesystem", "sync", disk.Path);
        child.Input.WriteLine("freed");

        string done = child.WaitForLine(line => line.StartsWith("DONE ", StringComparison.Ordinal));
        child.ExpectExit();
        Assert.Equal(string.Create(CultureInfo.InvariantCulture, $"DONE {count + 100}"), done);
    }

    /// <summary>All files of a store, of a store in a compressed folder, and of a snapshot.</summary>
    [Fact]
    public void Make_OnBtrfs_EveryFileIsOverwrittenInPlace()
    {
        using MountedFileSystem disk = MountedFileSystem.Make("btrfs", _temp.Root, DiskLengthMiB);
        string compressed = disk.PathOf("compressed");
        Directory.CreateDirectory(compressed);
        MountedFileSystem.Run("chattr", "+c", compressed);
        Refusal.MakeStore(disk.PathOf("store"));
        Refusal.MakeStore(Path.Combine(compressed, "store"));
        using (MappedFileQueue queue = new(Refusal.Options(disk.PathOf("store"))))
            queue.Snapshot(disk.PathOf("snapshot"));

        string[] files = Directory.GetFiles(disk.Path, "*", SearchOption.AllDirectories);

        Assert.Contains(disk.PathOf("store", "control"), files);
        Assert.Contains(disk.PathOf("snapshot", "commitlog", new string('0', 20) + ".log"), files);
        Assert.All(files, file => MountedFileSystem.Run("sh", "-c", "lsattr \"$0\" | cut -d ' ' -f 1 | grep -q C", file));
    }
}
