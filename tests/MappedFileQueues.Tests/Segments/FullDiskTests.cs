using System.Globalization;
using MappedFileQueues.Tests.Log.Opening;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Segments;

/// <summary>
/// A full disk is an exception before anything is written, never the death of whoever stores into a hole of a mapped file.
/// That would kill the test too, so a child fills the disk.
/// </summary>
[Trait("Category", "Slow")]
public sealed class FullDiskTests : IDisposable
{
    private const int Enospc = 28;
    private const int BallastLength = 3 * 1024 * 1024;
    private const int DiskLengthMiB = 12;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData("tmpfs", 65536, "shared", 100)]
    [InlineData("tmpfs", 4096, "exclusive", 100)]
    [InlineData("tmpfs", 16777216, "exclusive", 3000)]
    [InlineData("ext4", 65536, "exclusive", 100)]
    [InlineData("ext4", 4096, "shared", 100)]
    [InlineData("ext4", 16777216, "shared", 3000)]
    [InlineData("tmpfs", 65536, "shared", 100, "--portable")]
    [InlineData("ext4", 65536, "exclusive", 100, "--portable")]
    public void Append_DiskFillsUp_ThrowsLosesNothingAndGoesOn(
        string fileSystem, int segmentLength, string mode, int length, params string[] platform)
    {
        using MountedFileSystem disk = MountedFileSystem.Make(fileSystem, _temp.Root, DiskLengthMiB);
        WriteBallast(disk, BallastLength);
        FillUp(disk, segmentLength, mode, length, platform);
    }

    /// <summary>
    /// The system keeps large files in pieces of up to 2 MiB, and a store into a page that has blocks asks for those of the
    /// whole piece. Where the blocks ended within it, the store was the end of the process: SIGBUS, in most runs of this test.
    /// </summary>
    [Theory]
    [InlineData("ext4", 60, "exclusive", 3000)]
    [InlineData("ext4", 100, "shared", 3000)]
    [InlineData("ext4", 100, "exclusive", 300_000)]
    [InlineData("xfs", 320, "exclusive", 30_000)]
    [InlineData("xfs", 320, "shared", 100_000)]
    public void Append_DiskFillsUpWithinALargePiece_ThrowsLosesNothingAndGoesOn(
        string fileSystem, int diskLength, string mode, int length)
    {
        using MountedFileSystem disk = MountedFileSystem.Make(fileSystem, _temp.Root, diskLength);
        WriteBallast(disk, 10 * BallastLength);
        FillUp(disk, 64 * 1024 * 1024, mode, length);
    }

    private static void FillUp(MountedFileSystem disk, int segmentLength, string mode, int length, params string[] platform)
    {
        string[] numbers = [.. new[] { segmentLength, length }.Select(number => number.ToString(CultureInfo.InvariantCulture))];
        using ChildProcess child = ChildProcess.StartPeer(
            [.. platform, "fill", disk.PathOf("store"), numbers[0], mode, numbers[1]]);

        string full = child.WaitForLine(line => line.StartsWith("FULL ", StringComparison.Ordinal));
        Assert.StartsWith($"FULL {Enospc} ", full, StringComparison.Ordinal);
        int count = int.Parse(full.Split(' ')[2], CultureInfo.InvariantCulture);
        Assert.InRange(count, 100, 100_000);
        child.WaitForLine(line => line.StartsWith("COMMITTED ", StringComparison.Ordinal));
        disk.Free("ballast");
        child.Input.WriteLine("freed");

        string done = child.WaitForLine(line => line.StartsWith("DONE ", StringComparison.Ordinal));
        child.ExpectExit();
        Assert.Equal(string.Create(CultureInfo.InvariantCulture, $"DONE {count + 100}"), done);
    }

    [Theory]
    [InlineData("tmpfs")]
    [InlineData("ext4")]
    public void Create_DiskIsFull_ThrowsAndWorksOnceSpaceIsFreed(string fileSystem)
    {
        using MountedFileSystem disk = MountedFileSystem.Make(fileSystem, _temp.Root);
        string path = disk.PathOf("store");
        WriteBallast(disk, long.MaxValue);

        QueueDiskException error = Assert.Throws<QueueDiskException>(() => Refusal.MakeStore(path));
        Assert.Equal(Enospc, error.Errno);
        Refusal.CheckMessage(error.Message, path, "Free space");

        disk.Free("ballast");
        Refusal.MakeStore(path);
        Assert.Equal(3, Refusal.CountMessages(path));
    }

    /// <summary>Wherever in the making of a store the room ends, what is left is no obstacle to making it later.</summary>
    [Fact]
    public void Create_DiskFillsUpOnTheWay_ThrowsAndWorksOnceSpaceIsFreed()
    {
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root);
        for (int room = 4096; room < 512 * 1024; room += 20_480)
        {
            string path = disk.PathOf($"store-{room}");
            WriteBallast(disk, new DriveInfo(disk.Path).AvailableFreeSpace - room);
            try
            {
                Refusal.MakeStore(path);
            }
            catch (QueueDiskException error)
            {
                Assert.Equal(Enospc, error.Errno);
            }

            disk.Free("ballast");
            using (MappedFileQueue queue = new(Refusal.Options(path)))
                queue.Producer.Produce([1]);
            Directory.Delete(path, recursive: true);
        }
    }

    /// <summary>Writes a file of that length, or until the disk is full to its last block.</summary>
    private static void WriteBallast(MountedFileSystem disk, long length)
    {
        using FileStream file = new(disk.PathOf("ballast"), FileMode.CreateNew, FileAccess.Write, FileShare.None, 1);
        byte[] chunk = new byte[4096];
        try
        {
            for (long written = 0; written < length; written += chunk.Length)
                file.Write(chunk);
        }
        catch (IOException)
        {
            // Full.
        }
    }
}
