using System.Globalization;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Durability;

/// <summary>A file system that turns read-only under open files, as ext4 does after an error of its own.</summary>
public sealed class LostDiskTests : IDisposable
{
    private const int Erofs = 30;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// What was stored and not written by then is lost, and fsync says so: EROFS. The BCL takes that for success. On Portable a
    /// durable commit returned and was gone after the next mount, and the interval's flushes confirmed 500 messages of which none
    /// was on the disk.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Flush_FileSystemTurnedReadOnly_Fails(bool portable)
    {
        using MountedFileSystem disk = MountedFileSystem.Make("ext4", _temp.Root, lengthMiB: 16);
        MountedFileSystem.Run("mount", "-o", "remount,errors=remount-ro", disk.Path);
        string[] platform = portable ? ["--portable"] : [];
        using ChildProcess child = ChildProcess.StartPeer([.. platform, "lost-disk", disk.PathOf("store")]);
        string ready = child.WaitForLine(line => line.StartsWith("READY", StringComparison.Ordinal));
        string confirmed = ready["READY ".Length..];

        TurnReadOnly(disk);
        child.Input.WriteLine("lost");

        child.ExpectExit();
        Assert.Equal(string.Create(CultureInfo.InvariantCulture, $"COMMIT QueueDiskException {Erofs}"), child.Lines[1]);
        string[] produce = child.Lines[2].Split(' ');
        Assert.Equal("QueuePoisonedException", produce[1]);
        Assert.Equal(confirmed, produce[3]);
        Assert.Equal(["FLUSH QueuePoisonedException", "POISONED True"], child.Lines.Skip(3));
    }

    /// <summary>The kernel's own way to play a file system that has found an error in itself.</summary>
    private static void TurnReadOnly(MountedFileSystem disk)
    {
        string mount = File.ReadLines("/proc/mounts").Single(line => line.Split(' ')[1] == disk.Path);
        string device = Path.GetFileName(mount.Split(' ')[0]);
        string trigger = $"/sys/fs/ext4/{device}/trigger_fs_error";
        Assert.SkipUnless(File.Exists(trigger), "This kernel cannot make an ext4 fail by command.");
        File.WriteAllText(trigger, "1");
    }
}
