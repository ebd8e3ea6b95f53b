using System.Globalization;
using System.Runtime.ExceptionServices;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Linux;
using MappedFileQueues.Platform.Portable;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>A file system that turns read-only under open files, as ext4 does after an error of its own.</summary>
[Trait("Category", "Slow")]
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
        using MountedFileSystem disk = Mount();
        string[] platform = portable ? ["--portable"] : [];
        using ChildProcess child = ChildProcess.StartPeer([.. platform, "lost-disk", disk.PathOf("store")]);
        string ready = child.WaitForLine(line => line.StartsWith("READY", StringComparison.Ordinal));
        string confirmed = ready["READY ".Length..];

        TurnReadOnly(disk);
        child.Input.WriteLine("lost");

        child.ExpectExit();
        Assert.Equal(string.Create(CultureInfo.InvariantCulture, $"COMMIT QueueDiskException {Erofs}"), child.Lines[1]);
        string[] produce = child.Lines[2].Split(' ');
        // Portable cannot even open the lock of flushes any more: no sync is asked for, so none poisons the queue.
        string error = portable ? nameof(QueueDiskException) : nameof(QueuePoisonedException);
        Assert.Equal(error, produce[1]);
        Assert.Equal(confirmed, produce[3]);
        Assert.Equal([$"FLUSH {error}", $"POISONED {!portable}"], child.Lines.Skip(3));
    }

    /// <summary>The same for one file: what was written before the error is not on the disk.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void FlushData_FileSystemTurnedReadOnly_SaysSo(bool portable)
    {
        using MountedFileSystem disk = Mount();
        OperatingSystemServices services = portable ? new PortableServices() : new LinuxServices();
        using HeldDirectory directory = services.OpenDirectory(disk.Path, create: false, mode: null)!;
        using (PlatformFile file = directory.Open("file", FileOpening.ReadWriteOrCreate)!)
        {
            file.FlushData();
            file.WriteAt("not on the disk yet"u8, 0);
            file.FlushData();
            file.WriteAt("lost"u8, 0);
            TurnReadOnly(disk);

            Assert.Equal(Erofs, Assert.Throws<QueueDiskException>(() => file.FlushData()).Errno);

            // Others are told before the exception is made, where the system's own answer is at hand.
            int self = Environment.CurrentManagedThreadId;
            List<string> order = [];
            void NoteException(object? sender, FirstChanceExceptionEventArgs thrown)
            {
                if (Environment.CurrentManagedThreadId == self)
                    order.Add(thrown.Exception.GetType().Name);
            }

            AppDomain.CurrentDomain.FirstChanceException += NoteException;
            var error = Assert.Throws<QueueDiskException>(() => file.Sync(() => order.Add("told")));
            AppDomain.CurrentDomain.FirstChanceException -= NoteException;
            Assert.True(error.MayHaveLostData);
            Assert.Equal(portable ? "IOException" : "told", order[0]);
            Assert.Single(order, "told");
        }
    }

    private MountedFileSystem Mount()
    {
        MountedFileSystem disk = MountedFileSystem.Make("ext4", _temp.Root, lengthMiB: 16);
        MountedFileSystem.Run("mount", "-o", "remount,errors=remount-ro", disk.Path);
        return disk;
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
