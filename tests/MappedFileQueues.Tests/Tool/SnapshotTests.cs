using System.Text.Json;

namespace MappedFileQueues.Tests.Tool;

/// <summary>`mfq snapshot`, of stores of both kinds that are in use.</summary>
public sealed class SnapshotTests : IDisposable
{
    private readonly TempStore _temp = new();

    private string Target => Path.Combine(_temp.Root, "copy");

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Snapshot_StoreOfMessages_IsAStoreOfItsOwn()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "200", "--size", "120", "--segment-size", "4096").Expect(0);
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "billing", "--commit", "--count", "10").Expect(0);
        byte[] messages = ToolRun.Of("consume", _temp.StorePath).Expect(0).Output;

        string text = ToolRun.Of("snapshot", _temp.StorePath, Target).Expect(0).Text;

        Assert.Matches(@"offsets +0 to 25,600\n", text);
        // The portable platform makes no hard links.
        Assert.Matches(OperatingSystem.IsLinux() ? @"segments +6 shared, 1 copied\n" : @"segments +0 shared, 7 copied\n", text);
        Assert.Matches(@"consumers +1\n", text);
        Assert.Equal(messages, ToolRun.Of("consume", Target).Expect(0).Output);
        ToolRun.Of("produce", Target, "--messages", "1").Expect(0);
        Assert.Equal(messages, ToolRun.Of("consume", _temp.StorePath).Expect(0).Output);
        ToolRun.Of("snapshot", _temp.StorePath, Target).ExpectError("holds a store", Target);
    }

    [Fact]
    public void SnapshotJson_StoreOfStructsInUse_KeepsTheId()
    {
        using MappedFileQueue<long> queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath });
        queue.Producer.ProduceBatch([1, 2, 3]);

        byte[] output = ToolRun.Of("snapshot", _temp.StorePath, Target, "--keep-id", "--output", "json").Expect(0).Output;

        JsonElement made = JsonDocument.Parse(output).RootElement;
        Assert.Equal(Target, made.GetProperty("path").GetString());
        Assert.Equal(48, made.GetProperty("offset").GetInt64());
        Assert.Equal(queue.GetInfo().StoreId, made.GetProperty("storeId").GetGuid());
        using MappedFileQueue<long> copy = new(new MappedFileQueueOptions { StorePath = Target, CreateIfMissing = false });
        copy.Consumer.Consume(out long first);
        Assert.Equal(1, first);
        Assert.Equal(queue.GetInfo().StoreId, copy.GetInfo().StoreId);
    }
}
