using System.Text;
using MappedFileQueues.Packs;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Packs.Reading;

/// <summary>Lengths, streams and prefixes, from the writer and from a reader.</summary>
public sealed class PackQueryTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void TryGetLengthTryOpenRead_AnyLength_GiveTheObject(bool portable)
    {
        PlatformScope.Use(portable);
        using PackStore pack = PackStore.Open(_temp.StorePath);
        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        foreach (int length in (int[])[0, 1, 4000, 262_144, 262_145, 5_000_001])
        {
            byte[] data = PackBytes.Make(length, 7);
            pack.Put($"{length}", data);
            Assert.True(pack.TryGetLength($"{length}", out int told) && told == length);
            Assert.True(reader.TryGetLength($"{length}", out told) && told == length);
            Assert.True(pack.TryOpenRead($"{length}", out Stream? stream));
            Check(stream, data);
            Assert.True(reader.TryOpenRead($"{length}", out stream));
            Check(stream, data);
        }

        Assert.False(pack.TryGetLength("never", out int none) || none != 0);
        Assert.False(pack.TryOpenRead("never", out Stream? missing) || missing is not null);
        Assert.False(reader.TryOpenRead("never", out _));
    }

    /// <summary>What a stream reads stays while its object is deleted, compacted away, and the pack closed.</summary>
    [Fact]
    public void TryOpenRead_ObjectGoesMeanwhile_ReadsOn()
    {
        byte[] data = PackBytes.Make(1_000_000, 3);
        Stream? stream;
        using (PackStore pack = PackStore.Open(_temp.StorePath, new PackOptions { VolumeSize = 1 << 20 }))
        {
            pack.Put("one", data);
            Assert.True(pack.TryOpenRead("one", out stream));
            stream.ReadExactly(new byte[1000]);
            pack.Delete("one");
            Assert.True(pack.Compact(0).VolumesReplaced > 0);
        }

        byte[] rest = new byte[data.Length - 1000];
        stream.ReadExactly(rest);
        Assert.Equal(data[1000..], rest);
        stream.Dispose();
        Assert.Throws<ObjectDisposedException>(() => stream.ReadByte());
        Assert.False(stream.CanRead);
    }

    /// <summary>A stream never hands out bytes and says afterwards that they were wrong.</summary>
    [Fact]
    public void TryOpenRead_DamagedAtItsEnd_IsRefusedAtOnce()
    {
        using (PackStore pack = PackStore.Open(_temp.StorePath))
            pack.Put("one", PackBytes.Make(1_000_000, 3));
        string volume = Directory.GetFiles(_temp.PathOf("volumes")).Single();
        byte[] bytes = File.ReadAllBytes(volume);
        bytes[^20] ^= 1;
        File.WriteAllBytes(volume, bytes);
        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        Assert.True(reader.TryGetLength("one", out int length) && length == 1_000_000);
        PackCorruptException error = Assert.Throws<PackCorruptException>(() => reader.TryOpenRead("one", out _));
        Assert.Contains("volumes/", error.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Enumerate_Prefix_GivesThoseKeysInTheirOrder(bool byReader)
    {
        using PackStore pack = PackStore.Open(_temp.StorePath, new PackOptions { VolumeSize = 16 * 1024 });
        for (int i = 0; i < 500; i++)
            pack.Put($"{(i % 3 == 0 ? "images/ü" : "texts/")}{i}", PackBytes.Make(50, i));
        pack.Put([0xFF, 0x00, 0x01], [1]);
        pack.Delete("images/ü3");
        using PackReader reader = PackStore.OpenReader(_temp.StorePath);

        string[] expected = [.. Enumerable.Range(0, 500).Where(i => i % 3 == 0 && i != 3).Select(i => $"images/ü{i}")];
        Assert.Equal(expected, Keys("images/"u8.ToArray()));
        Assert.Equal(expected, Keys("images/ü"u8.ToArray()));
        Assert.Equal(["images/ü12", "images/ü120", "images/ü123", "images/ü126", "images/ü129"], Keys("images/ü12"u8.ToArray()));
        Assert.Empty(Keys("images/üx"u8.ToArray()));
        Assert.Single(Keys([0xFF]));
        Assert.Equal(pack.Count, Keys([]).Length);
        Assert.Equal(expected, (byReader ? reader.Enumerate("images/") : pack.Enumerate("images/")).Select(entry => entry.Key));
        Assert.Throws<ArgumentException>(() => pack.Enumerate("\uD800"));

        string[] Keys(byte[] prefix) =>
            [.. (byReader ? reader.Enumerate(prefix) : pack.Enumerate(prefix)).Select(entry => entry.Key)];
    }

    /// <summary>As for a get: nothing is allocated for an answer without an object.</summary>
    [Fact]
    public void TryGetLength_InSteadyState_AllocatesNothing()
    {
        using PackStore pack = PackStore.Open(_temp.StorePath);
        byte[] key = Encoding.UTF8.GetBytes("key");
        pack.Put(key, new byte[1000]);
        for (int i = 0; i < 100; i++)
            pack.TryGetLength(key, out _);
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int i = 0; i < 1000; i++)
            Assert.True(pack.TryGetLength(key, out _));
        Assert.Equal(0, GC.GetAllocatedBytesForCurrentThread() - before);
    }

    private static void Check(Stream stream, byte[] data)
    {
        using (stream)
        {
            Assert.Equal((data.Length, true, true, false), ((int)stream.Length, stream.CanRead, stream.CanSeek, stream.CanWrite));
            var copy = new MemoryStream();
            stream.CopyTo(copy);
            Assert.Equal(data, copy.ToArray());
            Assert.Equal(0, stream.Read(new byte[10]));
            stream.Seek(-Math.Min(3, data.Length), SeekOrigin.End);
            byte[] end = new byte[10];
            int read = stream.ReadAtLeast(end, 10, throwOnEndOfStream: false);
            Assert.Equal(data[^Math.Min(3, data.Length)..], end[..read]);
            stream.Position = data.Length / 2;
            Assert.Equal(data.Length == 0 ? -1 : data[data.Length / 2], stream.ReadByte());
            Assert.Throws<IOException>(() => stream.Seek(-1, SeekOrigin.Begin));
            Assert.Throws<NotSupportedException>(() => stream.Write(data));
        }
    }
}
