using MappedFileQueues.Packs;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Packs;

/// <summary>When a get may copy from a mapping, and when it must not.</summary>
public sealed class VolumeMappingTests : IDisposable
{
    private const int VolumeLength = 1024 * 1024;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void TryRead_WhatWasThereAtTheFirstRead_Copied(bool portable)
    {
        using PlatformFile file = MakeFile(portable, 10_000);
        using var mapping = new VolumeMapping(file, VolumeLength);

        byte[] read = new byte[777];
        Assert.True(mapping.TryRead(read, position: 9000, tail: 10_000));

        Assert.Equal(PackBytes.Make(10_000, 1)[9000..9777], read);
    }

    /// <summary>Here alone a mapping may lie beyond the end of its file.</summary>
    [Fact]
    public void TryRead_WhatWasPutLater_SeenOnLinux()
    {
        using PlatformFile file = MakeFile(portable: false, 10_000);
        using var mapping = new VolumeMapping(file, VolumeLength);
        Assert.True(mapping.TryRead(new byte[8], 64, tail: 10_000));

        byte[] later = PackBytes.Make(5000, 2);
        file.WriteAt(later, VolumeLength - 5000);
        byte[] read = new byte[5000];

        Assert.True(mapping.TryRead(read, VolumeLength - 5000, tail: VolumeLength));
        Assert.Equal(later, read);
    }

    /// <summary>A needle that is larger than a volume gets one that is longer than the others.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void TryRead_BehindTheMapping_IsForTheFile(bool portable)
    {
        using PlatformFile file = MakeFile(portable, 10_000);
        using var mapping = new VolumeMapping(file, volumeLength: 8192);
        Assert.True(mapping.TryRead(new byte[8], 64, tail: 10_000));
        file.WriteAt(PackBytes.Make(5000, 2), 10_000);

        Assert.False(mapping.TryRead(new byte[8], 12_000, tail: 15_000));
    }

    /// <summary>A checkpoint may say more than is left of a volume; to look there would end the process.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void TryRead_FileShorterThanItsNeedles_IsForTheFile(bool portable)
    {
        using PlatformFile file = MakeFile(portable, 10_000);
        using var mapping = new VolumeMapping(file, VolumeLength);

        Assert.False(mapping.TryRead(new byte[8], 64, tail: 20_000));
        Assert.False(mapping.TryRead(new byte[8], 64, tail: 20_000));
    }

    [Fact]
    public void TryRead_MoreThan16KiB_IsForTheFile()
    {
        using PlatformFile file = MakeFile(portable: false, 100_000);
        using var mapping = new VolumeMapping(file, VolumeLength);

        Assert.True(mapping.TryRead(new byte[16 * 1024], 8, tail: 100_000));
        Assert.False(mapping.TryRead(new byte[16 * 1024 + 1], 8, tail: 100_000));
    }

    /// <summary>The whole way: what was cut off an older volume is an error that names the file, not a dead process.</summary>
    [Fact]
    public void Get_FromATruncatedVolume_Throws()
    {
        var options = new PackOptions { VolumeSize = 64 * 1024, MapsVolumes = true };
        using (PackStore pack = PackStore.Open(_temp.StorePath, options))
        {
            for (int number = 0; number < 100; number++)
                pack.Put($"key {number}", PackBytes.Make(2000, number));
        }

        string first = Directory.GetFiles(_temp.PathOf("volumes")).Order(StringComparer.Ordinal).First();
        using (FileStream cut = File.OpenWrite(first))
            cut.SetLength(4096 * 2);

        using PackStore again = PackStore.Open(_temp.StorePath, options);
        Assert.Equal(PackBytes.Make(2000, 0), again.Get("key 0"));
        Assert.Equal(PackBytes.Make(2000, 99), again.Get("key 99"));
        Assert.Throws<QueueCorruptException>(() => again.Get("key 20"));
    }

    private PlatformFile MakeFile(bool portable, int length)
    {
        OperatingSystemServices os = portable ? new PortableServices() : new LinuxServices();
        StoreDirectory directory = os.OpenDirectory(_temp.StorePath, create: true, mode: null)!;
        PlatformFile file = directory.Open("volume", FileOpening.ReadWriteOrCreate)!;
        directory.Dispose();
        file.WriteAt(PackBytes.Make(length, 1), 0);
        return file;
    }
}
