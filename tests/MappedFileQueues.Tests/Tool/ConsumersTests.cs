using System.Text.Json;

namespace MappedFileQueues.Tests.Tool;

/// <summary>`mfq consumers`, in stores of both kinds.</summary>
[Trait("Category", "Slow")]
public sealed class ConsumersTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void ListResetDelete_StoreOfMessages_ShowMoveAndRemove()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "10", "--size", "56").Expect(0);
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "Billing", "--commit", "--count", "4").Expect(0);

        JsonElement consumer = Assert.Single(List());
        Assert.Equal(("billing", 256L), (consumer.GetProperty("name").GetString(), Offset(consumer)));
        Assert.Equal(384, consumer.GetProperty("lag").GetInt64());
        Assert.Matches(@"billing +256 +384 +6 +no\n", ToolRun.Of("consumers", "list", _temp.StorePath).Expect(0).Text);

        ToolRun moved = ToolRun.Of("consumers", "reset", _temp.StorePath, "billing", "--to", "128").Expect(0);
        Assert.Equal("billing continues at offset 128.\n", moved.Text);
        Assert.Equal(128, Offset(Assert.Single(List())));
        ToolRun.Of("consumers", "reset", _temp.StorePath, "billing", "--to", "latest").Expect(0);
        Assert.Equal(640, Offset(Assert.Single(List())));
        JsonElement reset = Json("consumers", "reset", _temp.StorePath, "billing", "--to", "earliest");
        Assert.Equal(("billing", 0L), (reset.GetProperty("name").GetString(), Offset(reset)));
        Assert.Equal(0, Offset(Assert.Single(List())));

        Assert.Equal("billing is removed.\n", ToolRun.Of("consumers", "delete", _temp.StorePath, "billing").Expect(0).Text);
        Assert.Empty(List());
        ToolRun.Of("consumers", "delete", _temp.StorePath, "billing").ExpectError("consumer=\"billing\"", "mfq consumers list");
        ToolRun.Of("consumers", "reset", _temp.StorePath, "billing", "--to", "8").ExpectError("offset=8");
    }

    /// <summary>A group of competing consumers: shown, its stopped member fenced, moved and removed.</summary>
    [Fact]
    public void Groups_AllCommands_ShowFenceMoveAndRemove()
    {
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath }))
        {
            using MappedFileGroupMember member = queue.OpenGroupMember("Workers");
            for (int i = 0; i < 10; i++)
                queue.Producer.Produce(new byte[56]);
            for (int i = 0; i < 3; i++)
                member.Consume();
            member.Acknowledge(0);

            Assert.Matches(@"workers +64 +576 +9 +2 +0 +1\n", ToolRun.Of("consumers", "list", _temp.StorePath).Expect(0).Text);
            Assert.Matches(
                $@"{member.Slot} +{Environment.ProcessId} +yes +2 ",
                ToolRun.Of("consumers", "members", _temp.StorePath, "WORKERS").Expect(0).Text);
            ToolRun.Of("consumers", "members", _temp.StorePath, "others").ExpectError("group=\"others\"", "mfq consumers list");
            ToolRun.Of("consumers", "fence", _temp.StorePath, "workers", "4000", "--after", "0ms")
                .ExpectError("slot=4000", $"Slot {member.Slot} has.");
            ToolRun.Of("consumers", "reset", _temp.StorePath, "workers", "--group", "--to", "latest").ExpectError("workers");
            Assert.Equal(
                $"2 messages of slot {member.Slot} go to the other members.\n",
                ToolRun.Of("consumers", "fence", _temp.StorePath, "workers", $"{member.Slot}", "--after", "10ms").Expect(0).Text);
            Assert.Throws<GroupMemberFencedException>(() => member.Acknowledge(64));
            member.Consume();
            Assert.Equal((64L, 2), (member.MessageOffset, member.DeliveryCount));
        }

        ToolRun.Of("consumers", "reset", _temp.StorePath, "workers", "--group", "--to", "latest").Expect(0);
        Assert.Matches(@"workers +640 +0 +0 +0 +0 +0\n", ToolRun.Of("consumers", "list", _temp.StorePath).Expect(0).Text);
        Assert.Equal(
            "workers is removed.\n",
            ToolRun.Of("consumers", "delete", _temp.StorePath, "workers", "--group").Expect(0).Text);
        ToolRun.Of("consumers", "delete", _temp.StorePath, "workers", "--group").ExpectError("mfq consumers list");
    }

    /// <summary>
    /// A member that takes the next message when it is done with one has one in hand at each look. It was fenced at its work.
    /// </summary>
    [Fact]
    public void Fence_MemberThatGoesFromMessageToMessage_IsLeftAlone()
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath });
        using MappedFileGroupMember member = queue.OpenGroupMember("workers");
        for (int i = 0; i < 10_000; i++)
            queue.Producer.Produce(new byte[8]);
        member.Consume();
        using var stop = new CancellationTokenSource();
        Exception? failure = null;
        var working = new Thread(() => failure = Record.Exception(() =>
        {
            while (!stop.Token.WaitHandle.WaitOne(20))
            {
                member.Consume();
                member.Acknowledge(member.MessageOffset - 16);
            }
        }));
        working.Start();
        ToolRun run = ToolRun.Of("consumers", "fence", _temp.StorePath, "workers", $"{member.Slot}", "--after", "5s");
        stop.Cancel();
        working.Join();

        run.ExpectError("continues by itself");
        Assert.Null(failure);
    }

    [Fact]
    public void ResetDelete_StoreOfStructs_NeedNoType()
    {
        using (MappedFileQueue<long> queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath }))
        {
            queue.Producer.ProduceBatch([1, 2, 3]);
            queue.OpenConsumer("").Dispose();
        }

        ToolRun.Of("consumers", "reset", _temp.StorePath, "", "--to", "16").Expect(0);

        using (MappedFileQueue<long> queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath }))
        {
            queue.Consumer.Consume(out long number);
            Assert.Equal(2, number);
            // Another process uses the store meanwhile, and this one has the name.
            ToolRun.OfProcess("consumers", "delete", _temp.StorePath, "")
                .ExpectError("--lock-timeout", ToolRun.ThisHolder);
        }

        Assert.Equal("(default) is removed.\n", ToolRun.Of("consumers", "delete", _temp.StorePath, "").Expect(0).Text);
        Assert.Empty(List());
    }

    /// <summary>The list showed `(default)`, and no command knew that name.</summary>
    [Fact]
    public void DefaultConsumer_NameThatIsShown_IsTakenByEveryCommand()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "4", "--size", "56").Expect(0);
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "", "--commit", "--count", "1").Expect(0);
        string shown = ToolRun.Of("consumers", "list", _temp.StorePath).Expect(0).Lines[^1].Split(' ')[2];

        ToolRun.Of("consume", _temp.StorePath, "--consumer", shown, "--commit", "--count", "1").Expect(0);
        Assert.Equal(("", 128L), (Assert.Single(List()).GetProperty("name").GetString(), Offset(Assert.Single(List()))));
        string check = ToolRun.Of("check", _temp.StorePath, "--consumer", shown).Expect(0).Text;
        Assert.Contains(shown, check, StringComparison.Ordinal);
        ToolRun.Of("consumers", "reset", _temp.StorePath, shown, "--to", "earliest").Expect(0);
        Assert.Equal(0, Offset(Assert.Single(List())));
        ToolRun.Of("consumers", "delete", _temp.StorePath, shown).Expect(0);
        Assert.Empty(List());
        Assert.Contains("up to 100", ToolRun.Of("consumers", "delete", _temp.StorePath, "(other)").Expect(2).Error,
            StringComparison.Ordinal);
    }

    private JsonElement[] List() => [.. Json("consumers", "list", _temp.StorePath).GetProperty("consumers").EnumerateArray()];

    private static long Offset(JsonElement consumer) => consumer.GetProperty("offset").GetInt64();

    private static JsonElement Json(params string[] arguments) =>
        JsonDocument.Parse(ToolRun.Of([.. arguments, "--output", "json"]).Expect(0).Output).RootElement;
}
