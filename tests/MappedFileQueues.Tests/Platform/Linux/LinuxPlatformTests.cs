using System.Runtime.Versioning;
using System.Text;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Linux;
using MappedFileQueues.Platform.Linux.Calls;
using MappedFileQueues.Platform.Portable;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Platform.Contract;

namespace MappedFileQueues.Tests.Platform.Linux;

/// <summary>The contract, kept by P/Invoke, and what only Linux promises.</summary>
[SupportedOSPlatform("linux")]
[Trait("Category", "Slow")]
public sealed class LinuxPlatformTests : PlatformContractTests
{
    private protected override OperatingSystemServices Services { get; } = new LinuxServices();

    private protected override OperatingSystemServices Other { get; } = new PortableServices();

    [Fact]
    public void RegisterForFence_OnThisKernel_IsPossible()
    {
        // Since Linux 4.16; without it each publish would pay for a full barrier.
        Assert.True(Services.RegisterForBarrier());
        Assert.True(Services.BarrierOtherProcesses());
    }

    /// <summary>
    /// A queue was disposed between the last look of the thread that waits for its consumers and its sleep. On a kernel before
    /// 5.16, which sleeps on one word alone, that ended the process.
    /// </summary>
    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    public unsafe void WaitOnWords_AWordIsUnmappedMeanwhile_Returns(int count)
    {
        uint own = 1;
        var unmapped = (uint*)4096;
        WordWait[] words = [new(&own, 1), new(unmapped, 1)];
        Services.WaitOnWords(words.AsSpan()[^count..], TimeSpan.FromSeconds(30));
        Assert.Throws<QueueDiskException>(() => Services.WaitOnWord(unmapped, 1, TimeSpan.FromSeconds(30)));
    }

    [Fact]
    public void Open_DirectoryRenamed_StillReachesTheSameOne()
    {
        WriteFile("file", "mine");
        Directory.Move(Temp.StorePath, Temp.StorePath + "-moved");
        Directory.CreateDirectory(Temp.StorePath);
        File.WriteAllText(Temp.PathOf("file"), "another store's");
        using PlatformFile file = Store.Open("file", FileOpening.Read)!;
        Assert.Equal(4, file.Length);
        Assert.Equal(["file"], Store.List(""));
    }

    [Fact]
    public void Open_NamedPipeInTheWay_ThrowsInsteadOfWaiting()
    {
        Assert.Empty(Store.List(""));
        MountedFileSystem.Run("mkfifo", Temp.PathOf("file"));
        Assert.Throws<QueueDiskException>(() => Store.Open("file", FileOpening.Read));
        Assert.Throws<QueueDiskException>(() => Store.TryLock("file", LockKind.Exclusive));
    }

    [Fact]
    public void TryTake_FileReplacedBeforeTheLock_LocksTheNewOne()
    {
        // The story: open, then somebody replaces the file, then flock: that lock is on a file that nobody else will ever open.
        using HeldDirectory store = Services.OpenDirectory(Temp.StorePath, create: true, mode: null)!;
        WriteFile("lock", "");
        int opened = 0;
        using PlatformLock? taken = LinuxLock.TryTake((LinuxDirectory)store, "lock", LockKind.Exclusive, () =>
        {
            LinuxHandle handle = LinuxHandle.Open(Temp.PathOf("lock"), LinuxNative.O_RDWR);
            if (opened++ == 0)
            {
                WriteFile("new", "");
                Store.Rename("new", "lock");
            }

            return handle;
        });
        Assert.NotNull(taken);
        Assert.Equal(2, opened);
        Assert.Null(Store.TryLock("lock", LockKind.Exclusive));
    }

    [Fact]
    public void Allocate_FileSystemWithoutFallocate_FillsOnlyTheHoles()
    {
        using MountedFileSystem disk = MountedFileSystem.Make("ext2", Temp.Root);
        using HeldDirectory store = Services.OpenDirectory(disk.PathOf("store"), create: true, mode: null)!;
        using PlatformFile file = store.Open("file", FileOpening.CreateNew)!;
        const int Length = 512 * 1024;
        file.SetLength(Length);

        // Zeros that somebody wrote are data; the time between the look and a store into them must not exist.
        byte[] written = Pattern(10_000);
        file.WriteAt(written, 100_000);
        file.WriteAt(new byte[4096], 300_000);
        long before = file.AllocatedLength;
        Assert.False(file.TryAllocate(50_000, 300_000));
        Assert.Equal(before, file.AllocatedLength);
        file.Allocate(50_000, 300_000);
        Assert.InRange(file.AllocatedLength, before + 250_000, Length - 1);
        file.Allocate(0, Length);
        Assert.True(file.AllocatedLength >= Length);
        Assert.Equal(Length, file.Length);
        byte[] read = new byte[Length];
        Assert.Equal(Length, file.ReadAt(read, 0));
        Assert.Equal(written, read.AsSpan(100_000, written.Length));
        Assert.Equal(written.Count(value => value != 0), read.Count(value => value != 0));

        file.SetLength(64 * 1024 * 1024);
        Assert.Equal(DiskErrors.ENOSPC, Assert.Throws<QueueDiskException>(() => file.Allocate(0, file.Length)).Errno);
        Assert.Equal(64 * 1024 * 1024, file.Length);
    }

    [Fact]
    public void Touch_HoleOnAFullDisk_DoesNotKill()
    {
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", Temp.Root);
        using HeldDirectory store = Services.OpenDirectory(disk.Path, create: false, mode: null)!;
        Assert.Null(store.UnsafeFileSystem);
        using PlatformFile file = store.Open("file", FileOpening.CreateNew)!;
        const long TooLong = 64 * 1024 * 1024;
        file.SetLength(TooLong);
        using MappedView view = file.Map(TooLong, writable: true);
        view.Touch(0, TooLong);
        Assert.InRange(file.AllocatedLength, 1, TooLong - 1);
    }

    [Fact]
    public void Open_ReadOnlyFileSystem_ReadsAndRefusesToWrite()
    {
        WriteFile("file", "content");
        Assert.NotNull(Store.TryLock("lock", LockKind.Exclusive));
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", Temp.Root);
        File.WriteAllText(disk.PathOf("file"), "content");
        File.WriteAllText(disk.PathOf("lock"), "");
        MountedFileSystem.Run("mount", "-o", "remount,ro", disk.Path);
        using HeldDirectory store = Services.OpenDirectory(disk.Path, create: true, mode: null)!;
        using PlatformFile file = store.Open("file", FileOpening.Read)!;
        Assert.Equal(7, file.Length);
        QueueDiskException error = Assert.Throws<QueueDiskException>(() => store.Open("file", FileOpening.ReadWrite));
        Assert.Equal(DiskErrors.EROFS, error.Errno);
        Assert.Contains("MappedFileReader.Open", error.Message, StringComparison.Ordinal);
        Assert.Equal(DiskErrors.EROFS, Assert.Throws<QueueDiskException>(() => store.Delete("file")).Errno);
        store.Probe("lock")!.Dispose();
    }

    [Theory]
    [InlineData(0x6969u, "NFS")]
    [InlineData(0xFF534D42u, "CIFS")]
    [InlineData(0xFE534D42u, "SMB2")]
    [InlineData(0x65735546u, "FUSE")]
    [InlineData(0x01021997u, "9P")]
    [InlineData(0x00C36400u, "CEPH")]
    [InlineData(0xEF53u, null)]
    [InlineData(0x58465342u, null)]
    [InlineData(0x9123683Eu, null)]
    [InlineData(0x01021994u, null)]
    [InlineData(0x794C7630u, null)]
    public void UnsafeName_TypeNumber_NamesNetworkAndFuseOnly(uint type, string? name) =>
        Assert.Equal(name, LinuxFileSystems.UnsafeName(type));

    [Fact]
    public void ParseStartTime_AnyCommandName_TakesField22()
    {
        const string Fields = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 20 21\n";
        Assert.Equal(987654, ProcFiles.ParseStartTime($"12 (cat) S {Fields}"));
        Assert.Equal(987654, ProcFiles.ParseStartTime($"12 (a) Z 7 (b c)) R {Fields}"));
        Assert.Equal(0, ProcFiles.ParseStartTime($"12 (cat) Z {Fields}"));
        Assert.Equal(0, ProcFiles.ParseStartTime("12 (cat) S 1 2 3"));
        Assert.Equal(0, ProcFiles.ParseStartTime(""));
    }

    /// <summary>
    /// The kernel gives its table of locks out by the page. While others came and went between two pages a holder was missed, and
    /// `AttachedProcesses` was empty, once in some thousand looks beside two more test runs. With 3,000 locks on a busy machine
    /// one read in thirty missed it, and three reads a look were too few for this test.
    /// </summary>
    [Fact]
    public void LockHolders_LongTableThatChanges_NeverMissesOne()
    {
        const int EnoughForPages = 400;
        const int ChangingFrom = 200;

        // The table begins with the newest.
        using PlatformLock held = Store.TryLock("held", LockKind.Exclusive)!;
        List<PlatformLock> others = [.. Enumerable.Range(0, EnoughForPages).Select(TakeOther)];
        bool isOver = false;
        BackgroundCall changing = BackgroundCall.Start(() =>
        {
            while (!Volatile.Read(ref isOver))
            {
                others[ChangingFrom..].ForEach(other => other.Dispose());
                for (int i = ChangingFrom; i < EnoughForPages; i++)
                    others[i] = TakeOther(i);
            }
        });
        int missed = 0;
        for (int i = 0; i < 300; i++)
            missed += Store.LockHolders("held")[0].Contains(Environment.ProcessId) ? 0 : 1;
        Volatile.Write(ref isOver, true);
        changing.Join();
        others.ForEach(other => other.Dispose());
        Assert.Equal(0, missed);

        PlatformLock TakeOther(int number) => Store.TryLock($"other {number}", LockKind.Shared)!;
    }

    [Fact]
    public void AddHolders_KernelsLockTable_FindsThoseOfTheInodeOnTheDevice()
    {
        const string Table = """
            1: FLOCK  ADVISORY  WRITE 1001 fe:00:4711 0 EOF
            1: -> FLOCK  ADVISORY  WRITE 1002 fe:00:4711 0 EOF
            2: FLOCK  ADVISORY  READ  1003 fe:00:4711 0 EOF
            3: FLOCK  ADVISORY  READ  1003 fe:00:4711 0 EOF
            4: POSIX  ADVISORY  WRITE 1004 fe:00:4711 0 EOF
            5: FLOCK  ADVISORY  WRITE 1005 fe:01:4711 0 EOF
            6: FLOCK  ADVISORY  WRITE 1006 fe:00:4712 0 EOF
            7: FLOCK  ADVISORY  WRITE -1 fe:00:4711 0 EOF
            8: broken
            9: FLOCK  ADVISORY  WRITE 1009 fe:00:47112 0 EOF
            """;
        List<int> holders = [];
        LinuxLockHolders.AddHolders(Encoding.ASCII.GetBytes(Table), 4711, device => device == 0xFE_0000_0000, holders);
        Assert.Equal([1001, 1003], holders);
    }
}
