using System.Text.Json;

namespace MappedFileQueues.Tests.Tool;

/// <summary>`mfq info`, for people and for programs.</summary>
public sealed class InfoTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void InfoJson_StoreWithAConsumer_FieldsMatchTheStore()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "1000", "--size", "56").Expect(0);
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "worker", "--commit", "--count", "10").Expect(0);

        JsonElement info = Info(_temp.StorePath);

        // 56 bytes and their header are a frame of 64.
        Assert.Equal(Path.GetFullPath(_temp.StorePath), info.GetProperty("storePath").GetString());
        Assert.NotEqual(Guid.Empty, info.GetProperty("storeId").GetGuid());
        Assert.Equal(0, info.GetProperty("structSize").GetInt32());
        Assert.Equal(64 * 1024 * 1024, info.GetProperty("segmentSize").GetInt64());
        Assert.Equal(0, info.GetProperty("logStart").GetInt64());
        Assert.Equal(64_000, info.GetProperty("publishedOffset").GetInt64());
        Assert.Equal(64_000, info.GetProperty("tailOffset").GetInt64());
        Assert.InRange(info.GetProperty("confirmedOffset").GetInt64(), 0, 64_000);
        Assert.True(info.GetProperty("segmentCount").GetInt32() >= 1);
        Assert.True(info.GetProperty("bytesOnDisk").GetInt64() >= 64_000);
        Assert.False(info.GetProperty("isPoisoned").GetBoolean());
        Assert.Equal(0, info.GetProperty("attachedProcesses").GetArrayLength());
        JsonElement consumer = Assert.Single(info.GetProperty("consumers").EnumerateArray());
        Assert.Equal("worker", consumer.GetProperty("name").GetString());
        Assert.Equal(640, consumer.GetProperty("offset").GetInt64());
        Assert.Equal(64_000 - 640, consumer.GetProperty("lag").GetInt64());
        Assert.False(consumer.GetProperty("isAttached").GetBoolean());
    }

    [Fact]
    public void InfoJson_StoreIsOpen_NamesTheProcessAndLeavesNoTrace()
    {
        // A queue that flushes at intervals makes the lock of flushes beside the look, a second after it was opened.
        using MappedFileQueue<long> queue = new(new MappedFileQueueOptions
        {
            StorePath = _temp.StorePath,
            Durability = DurabilityLevel.PageCache,
        });
        queue.Producer.Produce(1L);
        using MappedFileConsumer<long> consumer = queue.OpenConsumer("reader");
        string[] names = Directory.GetFileSystemEntries(_temp.StorePath, "*", SearchOption.AllDirectories);

        JsonElement info = Info(_temp.StorePath);

        Assert.Equal(sizeof(long), info.GetProperty("structSize").GetInt32());
        Assert.True(Assert.Single(info.GetProperty("consumers").EnumerateArray()).GetProperty("isAttached").GetBoolean());
        if (OperatingSystem.IsLinux())
        {
            Assert.Equal(Environment.ProcessId, Assert.Single(info.GetProperty("attachedProcesses").EnumerateArray()).GetInt32());
            Assert.Equal(Environment.ProcessId, Assert.Single(info.GetProperty("producerProcesses").EnumerateArray()).GetInt32());
        }

        Assert.Equal(names.Order(), Directory.GetFileSystemEntries(_temp.StorePath, "*", SearchOption.AllDirectories).Order());
    }

    [Fact]
    public void InfoTable_StoreWithMessages_ShowsOffsetsAndConsumers()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "1000", "--size", "56").Expect(0);
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "worker", "--commit").Expect(0);
        string[] before = StoreSnapshot.Of(_temp.StorePath);

        string text = ToolRun.Of("info", _temp.StorePath).Expect(0).Text;

        Assert.Matches(@"published +64,000\n", text);
        Assert.Matches(@"messages +1,000\n", text);
        Assert.Matches(@"worker +64,000 +0 +0 +no\n", text);
        Assert.Equal(before, StoreSnapshot.Of(_temp.StorePath));
    }

    [Fact]
    public void Info_FolderWithoutAStore_OneLineAndUntouched()
    {
        Directory.CreateDirectory(_temp.StorePath);
        File.WriteAllText(Path.Combine(_temp.StorePath, "notes.txt"), "mine");

        ToolRun.Of("info", _temp.StorePath).ExpectError(_temp.StorePath);

        Assert.Equal("notes.txt", Path.GetFileName(Assert.Single(Directory.GetFileSystemEntries(_temp.StorePath))));
    }

    private static JsonElement Info(string storePath) =>
        JsonDocument.Parse(ToolRun.Of("info", storePath, "--output", "json").Expect(0).Output).RootElement;
}
