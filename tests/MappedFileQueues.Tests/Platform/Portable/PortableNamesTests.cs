using System.Text;
using MappedFileQueues.Files;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Platform.Portable;

/// <summary>Paths as users write them. Windows reads some otherwise: devices, dots at the end, slashes, case, length.</summary>
public sealed class PortableNamesTests : IDisposable
{
    private readonly TempStore _temp = new();

    public PortableNamesTests() => PlatformScope.Use(portable: true);

    public void Dispose() => _temp.Dispose();

    /// <summary>Which of them are devices depends on the version of Windows. In none may bytes go nowhere.</summary>
    [Theory]
    [InlineData("nul")]
    [InlineData("nul.txt")]
    [InlineData("con.log")]
    [InlineData("COM7")]
    [InlineData("file.")]
    [InlineData("file")]
    public void AppendFile_AnyName_IsRefusedOrHoldsItsBytes(string name)
    {
        string path = Path.Combine(_temp.Root, name);
        try
        {
            using AppendFileStream file = new(path);
            file.Write("bytes"u8);
        }
        catch (QueueDiskException refused) when (OperatingSystem.IsWindows())
        {
            Assert.Contains("device", refused.Message, StringComparison.Ordinal);
            Assert.Contains(name[..3].ToLowerInvariant(), "nul con com", StringComparison.Ordinal);
            return;
        }

        Assert.Equal("bytes", Encoding.UTF8.GetString(File.ReadAllBytes(path)));
        _ = Assert.Single(Directory.GetFiles(_temp.Root), found => !found.EndsWith(".lock", StringComparison.Ordinal));
    }

    [Theory]
    [InlineData("nul")]
    [InlineData("aux")]
    [InlineData("store.")]
    public void Store_AnyName_IsRefusedOrHoldsItsMessages(string name)
    {
        MappedFileQueueOptions options = new() { StorePath = Path.Combine(_temp.Root, name), SegmentSize = 4096 };
        try
        {
            using MappedFileQueue queue = new(options);
            queue.Producer.Produce("message"u8);
        }
        catch (QueueDiskException refused) when (OperatingSystem.IsWindows())
        {
            Assert.Contains("device", refused.Message, StringComparison.Ordinal);
            return;
        }

        using MappedFileReader reader = MappedFileReader.Open(options.StorePath);
        Assert.True(reader.TryRead(out ReadOnlySpan<byte> bytes) && bytes.SequenceEqual("message"u8));
        _ = Assert.Single(Directory.GetDirectories(_temp.Root));
    }

    [Fact]
    public void Store_PathOfManyCharacters_IsAsAnyOther()
    {
        string path = Path.Combine([_temp.Root, .. Enumerable.Repeat(new string('p', 60), 6)]);
        MappedFileQueueOptions options = new() { StorePath = path, SegmentSize = 4096 };
        using (MappedFileQueue queue = new(options))
        {
            // Several segments, so that files are renamed and deleted there.
            for (int number = 0; number < 1000; number++)
                queue.Producer.Produce(Encoding.UTF8.GetBytes($"{number}"));
            for (int number = 0; number < 1000; number++)
            {
                ReadOnlySpan<byte> message = queue.Consumer.Consume();
                Assert.Equal($"{number}", Encoding.UTF8.GetString(message));
                queue.Consumer.Commit();
            }

            Assert.True(queue.Trim(queue.Consumer.Offset) > 0);
        }

        MappedFileQueue.Delete(path);
        Assert.False(Directory.Exists(path));
    }

    /// <summary>One store, whatever it is called: its only producer is held against the other spelling.</summary>
    [Fact]
    public void Store_OtherSpellingOfThePath_IsTheSameStore()
    {
        string name = _temp.StorePath;
        string[] spellings = OperatingSystem.IsWindows()
            ? [name.ToUpperInvariant(), name.ToLowerInvariant(), name.Replace('\\', '/'), name + "\\", name + ".", name + " "]
            : [name + "/", Path.Combine(_temp.Root, "x", "..", "store"), name.Replace("/store", "//store")];
        using MappedFileQueue queue = Open(name);
        queue.Producer.Produce("one"u8);
        foreach (string spelling in spellings)
        {
            using MappedFileQueue other = Open(spelling);
            Assert.Throws<QueueInUseException>(() => other.Producer);
        }

        _ = Assert.Single(Directory.GetDirectories(_temp.Root));

        static MappedFileQueue Open(string path) => new(new MappedFileQueueOptions
        {
            StorePath = path,
            SegmentSize = 4096,
            ProducerMode = ProducerMode.Exclusive,
            LockTimeout = TimeSpan.Zero,
        });
    }
}
