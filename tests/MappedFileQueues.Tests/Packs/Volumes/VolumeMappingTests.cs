using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Linux;
using MappedFileQueues.Platform.Portable;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Packs.Volumes;

/// <summary>When a get may copy from a mapping, and when it must not.</summary>
public sealed class VolumeMappingTests : IDisposable
{
    private const int VolumeLength = 1024 * 1024;
    private const int Window = 128 * 1024;
    private const int ObjectCount = 100;

    private static readonly PackOptions s_options = new() { VolumeSize = 64 * 1024 };

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>The first look waits for what it wants alone, by a read; from the second on the window is there.</summary>
    [Fact]
    public void TryRead_FromTheSecondLookIntoAWindow_Copied()
    {
        using PlatformFile file = MakeFile(portable: false, 10_000);
        using var mapping = new VolumeMapping(file, VolumeLength);
        byte[] read = new byte[777];

        Assert.False(mapping.TryRead(read, position: 64, tail: 10_000));
        Assert.True(mapping.TryRead(read, position: 9000, tail: 10_000));

        Assert.Equal(PackBytes.Make(10_000, 1)[9000..9777], read);
    }

    [Fact]
    public void TryRead_AcrossTwoWindows_NeedsBoth()
    {
        using PlatformFile file = MakeFile(portable: false, 2 * Window);
        using var mapping = new VolumeMapping(file, VolumeLength);
        byte[] read = new byte[1000];
        Look(mapping, 0, tail: 2 * Window);

        Assert.False(mapping.TryRead(read, Window - 500, tail: 2 * Window));
        Assert.True(mapping.TryRead(read, Window - 500, tail: 2 * Window));

        Assert.Equal(PackBytes.Make(2 * Window, 1)[(Window - 500)..(Window + 500)], read);
    }

    [Fact]
    public void TryRead_WhatWasPutLater_Seen()
    {
        using PlatformFile file = MakeFile(portable: false, 10_000);
        using var mapping = new VolumeMapping(file, VolumeLength);
        Look(mapping, 64, tail: 10_000);

        byte[] later = PackBytes.Make(5000, 2);
        file.WriteAt(later, 10_000);
        byte[] read = new byte[5000];
        Assert.True(mapping.TryRead(read, 10_000, tail: 15_000));
        Assert.Equal(later, read);

        file.WriteAt(later, VolumeLength - 5000);
        Look(mapping, VolumeLength - 5000, tail: VolumeLength);
        read.AsSpan().Clear();
        Assert.True(mapping.TryRead(read, VolumeLength - 5000, tail: VolumeLength));
        Assert.Equal(later, read);
    }

    /// <summary>A needle that is larger than a volume gets one that is longer than the others.</summary>
    [Fact]
    public void TryRead_BehindTheMapping_IsForTheFile()
    {
        using PlatformFile file = MakeFile(portable: false, 15_000);
        using var mapping = new VolumeMapping(file, volumeLength: 8192);
        Look(mapping, 64, tail: 15_000);

        Assert.True(mapping.TryRead(new byte[8], 8184, tail: 15_000));
        Assert.False(mapping.TryRead(new byte[8], 8185, tail: 15_000));
        Assert.False(mapping.TryRead(new byte[8], 12_000, tail: 15_000));
    }

    /// <summary>A checkpoint may say more than is left of a volume; to look there would end the process.</summary>
    [Fact]
    public void TryRead_FileShorterThanItsNeedles_IsForTheFileFromThereOn()
    {
        using PlatformFile file = MakeFile(portable: false, Window + 10_000);
        using var mapping = new VolumeMapping(file, VolumeLength);
        const int Tail = 3 * Window;

        Look(mapping, 64, Tail);
        Assert.True(mapping.TryRead(new byte[8], 64, Tail));
        foreach (int gone in (int[])[Window, Window + 20_000, 2 * Window])
        {
            for (int look = 0; look < 3; look++)
                Assert.False(mapping.TryRead(new byte[8], gone, Tail));
        }
    }

    [Fact]
    public void TryRead_MoreThan16KiB_IsForTheFile()
    {
        using PlatformFile file = MakeFile(portable: false, 100_000);
        using var mapping = new VolumeMapping(file, VolumeLength);
        Look(mapping, 8, tail: 100_000);

        Assert.True(mapping.TryRead(new byte[16 * 1024], 8, tail: 100_000));
        Assert.False(mapping.TryRead(new byte[16 * 1024 + 1], 8, tail: 100_000));
    }

    /// <summary>Nothing there tells whether a look is safe.</summary>
    [Fact]
    public void TryRead_Portable_IsForTheFile()
    {
        using PlatformFile file = MakeFile(portable: true, 10_000);
        using var mapping = new VolumeMapping(file, VolumeLength);

        for (int look = 0; look < 3; look++)
            Assert.False(mapping.TryRead(new byte[8], 64, tail: 10_000));
    }

    /// <summary>The whole way: what was cut off an older volume is an error that names the file, not a dead process.</summary>
    [Fact]
    public void Get_FromATruncatedVolume_Throws()
    {
        Fill(_temp.StorePath);
        using (FileStream cut = File.OpenWrite(FirstVolume(_temp.StorePath)))
            cut.SetLength(4096 * 2);

        using PackStore pack = PackStore.Open(_temp.StorePath, s_options);
        for (int round = 0; round < 3; round++)
        {
            Assert.Equal(PackBytes.Make(2000, 0), pack.Get("key 0"));
            Assert.Equal(PackBytes.Make(2000, 99), pack.Get("key 99"));
            Assert.Throws<PackCorruptException>(() => pack.Get("key 20"));
        }
    }

    /// <summary>
    /// A disk that cannot give one block: btrfs knows the checksums of what it stores, and one byte of the image is another now.
    /// A load from that page of a mapping is a SIGBUS, which would end this process.
    /// </summary>
    [Fact]
    public void Get_FromAPlaceThatTheDiskCannotRead_Throws()
    {
        using MountedFileSystem disk = MountedFileSystem.Make("btrfs", _temp.Root, lengthMiB: 256);
        string path = disk.PathOf("pack");
        Fill(path);
        string volume = FirstVolume(path);
        disk.Spoil(volume, PackBytes.Make(2000, 7));

        using PackStore pack = PackStore.Open(path, s_options);
        for (int round = 0; round < 3; round++)
        {
            Assert.Equal(DiskErrors.EIO, Assert.Throws<QueueDiskException>(() => pack.Get("key 7")).Errno);
            for (int number = 20; number < ObjectCount; number++)
                Assert.Equal(PackBytes.Make(2000, number), pack.Get($"key {number}"));
        }
    }

    private static void Fill(string path)
    {
        using PackStore pack = PackStore.Open(path, s_options);
        for (int number = 0; number < ObjectCount; number++)
            pack.Put($"key {number}", PackBytes.Make(2000, number));
    }

    private static string FirstVolume(string path) =>
        Directory.GetFiles(Path.Combine(path, "volumes")).Order(StringComparer.Ordinal).First();

    /// <summary>What a look needs that finds the window in the mapping.</summary>
    private static void Look(VolumeMapping mapping, long position, long tail) =>
        Assert.False(mapping.TryRead(new byte[8], position, tail));

    private PlatformFile MakeFile(bool portable, int length)
    {
        OperatingSystemServices os = portable ? new PortableServices() : new LinuxServices();
        HeldDirectory directory = os.OpenDirectory(_temp.StorePath, create: true, mode: null)!;
        PlatformFile file = directory.Open("volume", FileOpening.ReadWriteOrCreate)!;
        directory.Dispose();
        file.WriteAt(PackBytes.Make(length, 1), 0);
        return file;
    }
}
