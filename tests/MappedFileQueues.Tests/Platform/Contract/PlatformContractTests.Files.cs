using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Linux;

namespace MappedFileQueues.Tests.Platform.Contract;

/// <summary>Files: lengths, blocks, reading, writing, mappings.</summary>
public abstract partial class PlatformContractTests
{
    private const int SegmentLength = 1024 * 1024;

    [Fact]
    public void SetLength_Longer_AddsZerosWithoutBlocks()
    {
        using PlatformFile file = NewFile("file", SegmentLength);
        Assert.Equal(SegmentLength, file.Length);
        byte[] content = new byte[SegmentLength + 100];
        content.AsSpan().Fill(1);
        Assert.Equal(SegmentLength, file.ReadAt(content, 0));
        Assert.False(content.AsSpan(0, SegmentLength).ContainsAnyExcept((byte)0));
        Assert.Equal(Services.IsPortable ? SegmentLength : 0, file.AllocatedLength);
        file.SetLength(10);
        Assert.Equal(10, file.Length);
    }

    [Fact]
    public void SetLength_TooLarge_ThrowsAndKeepsTheLength()
    {
        using PlatformFile file = NewFile("file", 100);
        QueueDiskException error = Assert.Throws<QueueDiskException>(() => file.SetLength(1L << 62));
        Assert.Equal(DiskErrors.EFBIG, error.Errno);
        Assert.Equal(100, file.Length);
    }

    [Fact]
    public void ReadAt_WhatWasWritten_GivesItBackUpToTheEnd()
    {
        using PlatformFile file = NewFile("file", 0);
        byte[] written = Pattern(10_000);
        file.WriteAt(written, 5000);
        byte[] read = new byte[20_000];
        Assert.Equal(15_000, file.ReadAt(read, 0));
        Assert.Equal(written, read.AsSpan(5000, 10_000));
        Assert.Equal(3, file.ReadAt(read, 14_997));
        Assert.Equal(0, file.ReadAt(read, 15_000));
        Assert.Equal(0, file.ReadAt(read, 1_000_000));
        Assert.Equal(0, file.ReadAt([], 0));
        file.FlushData();
    }

    [Fact]
    public void TryLink_ToAnotherDirectory_IsTheSameFile()
    {
        using (PlatformFile file = NewFile("file", 0))
            file.WriteAt("one"u8, 0);
        File.CreateSymbolicLink(Path.Combine(Temp.StorePath, "link"), "file");
        using HeldDirectory other = Services.OpenDirectory(Path.Combine(Temp.Root, "other"), create: true, mode: null)!;

        bool isLinked = Store.TryLink("link", other, "copy");

        Assert.Equal(!Services.IsPortable, isLinked);
        if (!isLinked)
        {
            Assert.Null(other.Identify("copy"));
            return;
        }

        // The file, not the link to it.
        Assert.Equal(Store.Identify("file"), other.Identify("copy"));
        using (PlatformFile file = other.Open("copy", FileOpening.Read)!)
            Assert.True(file.HasOtherNames);
        Store.Delete("file");
        Assert.Equal("one", File.ReadAllText(Path.Combine(Temp.Root, "other", "copy")));
        Assert.Equal(DiskErrors.ENOENT, Assert.Throws<QueueDiskException>(() => Store.TryLink("file", other, "second")).Errno);
    }

    [Fact]
    public void TryLink_ToAnotherFileSystem_IsFalse()
    {
        NewFile("file", 10).Dispose();
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", Temp.Root);
        using HeldDirectory other = Services.OpenDirectory(disk.PathOf("other"), create: true, mode: null)!;

        Assert.False(Store.TryLink("file", other, "copy"));
        Assert.Empty(other.List(""));
    }

    /// <summary>xfs and btrfs share blocks; ext4 and tmpfs cannot.</summary>
    [Theory]
    [InlineData("xfs", 320, true)]
    [InlineData("btrfs", 120, true)]
    [InlineData("ext4", 4, false)]
    [InlineData("tmpfs", 4, false)]
    public void TryClone_WhatWasWritten_IsACopyOfItsOwn(string fileSystem, int length, bool shares)
    {
        using MountedFileSystem disk = MountedFileSystem.Make(fileSystem, Temp.Root, length);
        using HeldDirectory directory = Services.OpenDirectory(disk.PathOf("store"), create: true, mode: null)!;
        using PlatformFile file = directory.Open("file", FileOpening.CreateNew)!;
        file.SetLength(SegmentLength);
        file.WriteAt(Pattern(10_000), 5000);
        using PlatformFile copy = directory.Open("copy", FileOpening.CreateNew)!;

        bool isCloned = copy.TryClone(file);

        Assert.Equal(shares && !Services.IsPortable, isCloned);
        if (!isCloned)
        {
            Assert.Equal(0, copy.Length);
            return;
        }

        copy.Sync();
        file.WriteAt("changed"u8, 5000);
        byte[] read = new byte[10_000];
        Assert.Equal(SegmentLength, copy.Length);
        Assert.Equal(10_000, copy.ReadAt(read, 5000));
        Assert.Equal(Pattern(10_000), read);
    }

    [Fact]
    public void Open_ForReading_RefusesToWrite()
    {
        NewFile("file", 100).Dispose();
        using PlatformFile file = Store.Open("file", FileOpening.Read)!;
        _ = Assert.ThrowsAny<Exception>(() => file.WriteAt([1], 0));
        Assert.Equal(100, file.ReadAt(new byte[200], 0));
    }

    [Fact]
    public void Allocate_OverWrittenParts_KeepsContentAndLength()
    {
        using PlatformFile file = NewFile("file", SegmentLength);
        byte[] written = Pattern(5000);
        file.WriteAt(written, 100_001);
        file.WriteAt([7], SegmentLength - 1);
        file.Allocate(0, 200_000);
        file.Allocate(100_000, SegmentLength - 100_000);
        Assert.Equal(SegmentLength, file.Length);
        Assert.True(file.AllocatedLength >= SegmentLength, $"allocated {file.AllocatedLength}");
        byte[] read = new byte[SegmentLength];
        Assert.Equal(SegmentLength, file.ReadAt(read, 0));
        Assert.Equal(written, read.AsSpan(100_001, 5000));
        Assert.Equal(7, read[^1]);
        Assert.Equal(written.Count(value => value != 0) + 1, read.Count(value => value != 0));
        Assert.True(RealBlocks("file") >= SegmentLength, $"blocks {RealBlocks("file")}");
    }

    [Fact]
    public void Allocate_OutsideTheFile_IsRefused()
    {
        using PlatformFile file = NewFile("file", 10_000);
        Assert.Throws<ArgumentOutOfRangeException>(() => file.Allocate(0, 10_001));
        Assert.Throws<ArgumentOutOfRangeException>(() => file.Allocate(10_001, 0));
        Assert.Throws<ArgumentOutOfRangeException>(() => file.Allocate(-1, 1));
        Assert.Throws<ArgumentOutOfRangeException>(() => file.Allocate(0, -1));
        Assert.Throws<ArgumentOutOfRangeException>(() => file.Allocate(5000, long.MaxValue));
        file.Allocate(10_000, 0);
        Assert.Equal(10_000, file.Length);
    }

    [Fact]
    public void Allocate_BesideAWriter_LosesNoStore()
    {
        // Messages are stored into parts that an earlier call allocated while the next part, and the same again, is allocated.
        const int StepLength = 64 * 1024;
        using PlatformFile file = NewFile("file", SegmentLength);
        using MappedView view = file.Map(SegmentLength, writable: true);
        file.Allocate(0, StepLength);
        long allocated = StepLength;
        ForEachThread(2, thread =>
        {
            if (thread == 0)
            {
                for (long end = 2 * StepLength; end <= SegmentLength; end += StepLength)
                {
                    file.Allocate(0, end);
                    Volatile.Write(ref allocated, end);
                }

                return;
            }

            SpinWait spin = default;
            for (long position = 0; position < SegmentLength; position += 8)
            {
                while (position >= Volatile.Read(ref allocated))
                    spin.SpinOnce();
                Store64(view, position, position + 1);
            }
        });
        for (long position = 0; position < SegmentLength; position += 8)
            Assert.Equal(position + 1, Load64(view, position));
    }

    [Theory]
    [InlineData("tmpfs")]
    [InlineData("ext4")]
    public void Allocate_FullDisk_ThrowsAndKeepsLengthAndContent(string kind)
    {
        using MountedFileSystem disk = MountedFileSystem.Make(kind, Temp.Root);
        using HeldDirectory store = Services.OpenDirectory(disk.PathOf("store"), create: true, mode: null)!;
        const long TooLong = 64 * SegmentLength;
        using PlatformFile file = store.Open("file", FileOpening.CreateNew)!;
        file.SetLength(TooLong);
        file.Allocate(0, 64 * 1024);
        byte[] written = Pattern(64 * 1024);
        file.WriteAt(written, 0);
        QueueDiskException error = Assert.Throws<QueueDiskException>(() => file.Allocate(0, TooLong));
        Assert.Equal(DiskErrors.ENOSPC, error.Errno);
        Assert.Equal(disk.PathOf("store", "file"), error.Path);
        Assert.Contains("errno=28", error.Message, StringComparison.Ordinal);
        Assert.Contains("Free space", error.Message, StringComparison.Ordinal);
        Assert.Equal(TooLong, file.Length);
        byte[] read = new byte[written.Length];
        Assert.Equal(read.Length, file.ReadAt(read, 0));
        Assert.Equal(written, read);
    }

    [Fact]
    public void Map_StoresThroughIt_AreReadByTheFile()
    {
        using PlatformFile file = NewFile("file", SegmentLength);
        file.Allocate(0, SegmentLength);
        using MappedView view = file.Map(SegmentLength, writable: true);
        using MappedView reader = file.Map(SegmentLength, writable: false);
        Assert.Equal(SegmentLength, view.Length);
        view.Touch(0, SegmentLength);
        reader.Touch(0, SegmentLength);
        for (long position = 0; position < SegmentLength; position += 4096)
            Store64(view, position, position + 1);
        byte[] read = new byte[8];
        for (long position = 0; position < SegmentLength; position += 4096)
        {
            Assert.Equal(8, file.ReadAt(read, position));
            Assert.Equal(position + 1, BitConverter.ToInt64(read));
            Assert.Equal(position + 1, Load64(reader, position));
        }
    }

    [Fact]
    public void Map_FileClosedAndCollected_StaysUntilDisposed()
    {
        MappedView view = MapAndClose(out WeakReference weak);
        GC.Collect();
        GC.WaitForPendingFinalizers();
        GC.Collect();
        Assert.False(weak.IsAlive && weak.Target is PlatformFile { Length: 0 });
        Store64(view, 4096, 42);
        using (PlatformFile again = Store.Open("file", FileOpening.Read)!)
        {
            byte[] read = new byte[8];
            Assert.Equal(8, again.ReadAt(read, 4096));
            Assert.Equal(42, BitConverter.ToInt64(read));
        }

        view.Dispose();
        view.Dispose();
        Assert.DoesNotContain(Temp.PathOf("file"), File.ReadAllText("/proc/self/maps"), StringComparison.Ordinal);
    }

    [Fact]
    public void Map_NobodyDisposes_StaysMapped()
    {
        // A span may still be out when the last reference to a queue is gone: no finalizer may unmap under it.
        ForgetView();
        for (int round = 0; round < 3; round++)
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }

        Assert.Contains(Temp.PathOf("forgotten"), File.ReadAllText("/proc/self/maps"), StringComparison.Ordinal);
    }

    [Fact]
    public void Map_FileTooShort_ThrowsAndDoesNotMakeItLonger()
    {
        using PlatformFile file = NewFile("file", 8191);
        QueueCorruptException error = Assert.Throws<QueueCorruptException>(() => file.Map(8192, writable: true));
        Assert.Equal(Temp.PathOf("file"), error.File);
        Assert.Equal(8191, error.Offset);
        Assert.Equal(8191, file.Length);
    }

    [Fact]
    public void Touch_AnyRange_NeverFails()
    {
        using PlatformFile file = NewFile("file", 10_000);
        using MappedView view = file.Map(10_000, writable: true);
        using MappedView reader = file.Map(10_000, writable: false);
        (long Position, long Length)[] ranges = [(0, 0), (0, 10_000), (5, 1), (9999, 1000), (10_000, 1), (20_000, 5), (-5, 10)];
        foreach ((long position, long length) in ranges)
        {
            view.Touch(position, length);
            reader.Touch(position, length);
        }

        Assert.Equal(10_000, file.Length);
    }

    [Fact]
    public void Dispose_Twice_ThenUse_Throws()
    {
        PlatformFile file = NewFile("file", 100);
        file.Dispose();
        file.Dispose();
        Assert.Throws<ObjectDisposedException>(() => file.ReadAt(new byte[10], 0));
        Assert.Throws<ObjectDisposedException>(() => file.WriteAt(new byte[10], 0));
        Assert.Throws<ObjectDisposedException>(() => file.Length);
        Assert.Throws<ObjectDisposedException>(file.FlushData);
    }

    private protected static byte[] Pattern(int length)
    {
        byte[] pattern = new byte[length];
        for (int index = 0; index < length; index++)
            pattern[index] = (byte)(index * 31 + index / 256);
        return pattern;
    }

    private protected static unsafe void Store64(MappedView view, long position, long value) =>
        Volatile.Write(ref *(long*)(view.Pointer + position), value);

    private protected static unsafe long Load64(MappedView view, long position) =>
        Volatile.Read(ref *(long*)(view.Pointer + position));

    private protected PlatformFile NewFile(string name, long length)
    {
        PlatformFile file = Store.Open(name, FileOpening.CreateNew)!;
        file.SetLength(length);
        return file;
    }

    /// <summary>The blocks that the file really has, whichever implementation made them.</summary>
    private long RealBlocks(string name)
    {
        OperatingSystemServices services = OperatingSystem.IsLinux() ? new LinuxServices() : Services;
        using HeldDirectory directory = services.OpenDirectory(Temp.StorePath, create: false, mode: null)!;
        using PlatformFile file = directory.Open(name, FileOpening.Read)!;
        return file.AllocatedLength;
    }

    private MappedView MapAndClose(out WeakReference weak)
    {
        using PlatformFile file = NewFile("file", SegmentLength);
        file.Allocate(0, SegmentLength);
        weak = new WeakReference(file);
        return file.Map(SegmentLength, writable: true);
    }

    [System.Runtime.CompilerServices.MethodImpl(System.Runtime.CompilerServices.MethodImplOptions.NoInlining)]
    private void ForgetView()
    {
        using PlatformFile file = NewFile("forgotten", 4096);
        _ = file.Map(4096, writable: false);
    }
}
