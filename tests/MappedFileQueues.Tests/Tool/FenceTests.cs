using System.Globalization;
using System.Text.Json;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// `mfq fence`: docs/DESIGN.md section 1 lets a producer that stands still stop all readers. Who knows that it will not continue
/// takes its claim away; if it continues after all, its call fails and nothing of the message is seen.
/// </summary>
[Trait("Category", "Slow")]
public sealed class FenceTests
{
    [Theory]
    [InlineData("single", "Claimed", 2)]
    [InlineData("single", "PayloadWritten", 2)]
    [InlineData("batch", "BatchInnerWritten", 6)]
    [InlineData("claim", "PayloadWritten", 2)]
    public void Fence_StoppedProducer_ReadersGoOnAndItsCallFails(string what, string step, int hit)
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using MappedFileConsumer consumer = survivor.OpenConsumer("waiting");
        using PeerAgent child = store.StartAttached();
        child.Trap(step, hit, "stop");
        child.Send($"append what={what} prefix=c count=3 size=200");
        child.WaitUntilStopped();
        CrashStore.Append(survivor, "behind-0", "behind-1");
        string[] before = [.. store.Peek()];
        MappedFileClaimInfo claim = Assert.Single(survivor.GetInfo().OpenClaims);

        JsonElement fenced = Assert.Single(
            JsonDocument.Parse(Fence(store.Path, claim.Slot, "--output", "json").Expect(0).Output).RootElement
                .GetProperty("claims").EnumerateArray());

        Assert.Equal(claim.Offset, fenced.GetProperty("offset").GetInt64());
        Assert.Equal(child.Id, fenced.GetProperty("processId").GetInt32());
        string[] all = [.. before, "behind-0", "behind-1"];
        foreach (string expected in all)
            Assert.Equal(expected, ReadNext(consumer));
        Assert.Equal(survivor.GetInfo().PublishedOffset, survivor.Flush());

        child.Continue();
        Assert.StartsWith("error ProducerFencedException", child.Answer(), StringComparison.Ordinal);
        Assert.Equal(all, store.Peek());
        // The producer itself is as good as before.
        child.Ask("append what=single prefix=later count=1 size=200");
        Assert.Equal("later-0", ReadNext(consumer));
        Assert.Empty(survivor.GetInfo().OpenClaims);
        ToolRun.Of("verify", store.Path).Expect(0);
        consumer.Dispose();
        survivor.Dispose();
        child.Kill();
        store.ExpectHealthy([.. all, "later-0"]);
    }

    /// <summary>A producer that works has a claim at any moment, but never the same one for long.</summary>
    [Fact]
    public void Fence_ProducerThatGoesOn_IsLeftAlone()
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        using MappedFileProducer producer = queue.OpenProducer();
        MessageClaim claim = producer.DangerousClaim(100);
        int slot = Assert.Single(queue.GetInfo().OpenClaims).Slot;

        using ChildProcess fence = ChildProcess.StartTool(
            "fence", store.Path, slot.ToString(CultureInfo.InvariantCulture), "--after", "2s");
        Eventually.True(
            () => fence.ErrorText.Contains($"pid {Environment.ProcessId}", StringComparison.Ordinal), "it has seen the claim");
        claim.Publish(100);

        Assert.Equal(1, fence.WaitForExit());
        Assert.Contains("continues by itself", fence.ErrorText, StringComparison.Ordinal);
        using MappedFileConsumer consumer = queue.OpenConsumer("all");
        Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message));
        Assert.Equal(100, message.Length);
    }

    [Fact]
    public void Fence_NothingToFence_IsRefusedWithTheReason()
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        CrashStore.Append(queue, "one");
        Fence(store.Path, 5).ExpectError("slot=5", "No claim is open");
        using PeerAgent child = store.StartAttached();
        child.Trap("Claimed", 1, "stop");
        child.Send("append what=single prefix=c count=3 size=200");
        child.WaitUntilStopped();
        int slot = Assert.Single(queue.GetInfo().OpenClaims).Slot;

        Fence(store.Path, slot + 1).ExpectError($"slot={slot + 1}", $"Claims are open of slot {slot}");

        Assert.Single(queue.GetInfo().OpenClaims);
        ToolRun.Of("fence", store.Path, "4096").Expect(2);
        ToolRun.Of("fence", store.Path).Expect(2);
    }

    [Fact]
    public void Fence_ExclusiveProducer_IsRefused()
    {
        using var store = new CrashStore(mode: ProducerMode.Exclusive);
        using PeerAgent child = store.StartAttached();
        child.Trap("PayloadWritten", 2, "stop");
        child.Send("append prefix=c count=3 size=200");
        child.WaitUntilStopped();

        Fence(store.Path, 0).ExpectError("Exclusive", $"pid={child.Id}");

        child.Continue();
        Assert.Equal("ok", child.Answer());
        Assert.Equal(["c-0", "c-1", "c-2"], store.Peek());
    }

    private static ToolRun Fence(string path, int slot, params string[] options) =>
        ToolRun.Of(["fence", path, slot.ToString(CultureInfo.InvariantCulture), "--after", "100ms", .. options]);

    private static string ReadNext(MappedFileConsumer consumer)
    {
        Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message, Eventually.DefaultDeadline), "a message comes");
        string text = CrashMessage.Read(message);
        consumer.Commit();
        return text;
    }
}
