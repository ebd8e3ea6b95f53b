using System.Text.Json;

namespace MappedFileQueues.Tests.Tool;

/// <summary>`mfq retention` and `mfq trim`.</summary>
public sealed class RetentionTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Retention_ConsumerBehind_IsNamedAndKeepsWhatItHasNotRead()
    {
        Produce();
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "billing", "--commit", "--count", "10").Expect(0);
        Assert.Contains("everything is kept", ToolRun.Of("retention", _temp.StorePath).Expect(0).Text, StringComparison.Ordinal);

        string text = ToolRun.Of(
            "retention", _temp.StorePath, "--max-bytes", "8KiB", "--max-age", "72h", "--max-unread", "1GiB").Expect(0).Text;

        Assert.Matches(@"held back +[\d.]+ kB by consumer billing, [\d.]+ kB behind\n", text);
        string info = ToolRun.Of("info", _temp.StorePath).Expect(0).Text;
        Assert.Contains("consumer billing", info, StringComparison.Ordinal);
        Assert.Contains("3.00:00:00", info, StringComparison.Ordinal);
        Assert.Matches(@"log start +0\n", info);
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "billing", "--commit").Expect(0);
        ToolRun.Of("trim", _temp.StorePath, "--before", "0").Expect(0);
        JsonElement policy = Json("retention", _temp.StorePath, "--show").GetProperty("retention");
        Assert.Equal(8192, policy.GetProperty("maxBytes").GetInt64());
        ToolRun.Of("retention", _temp.StorePath, "--none").Expect(0);
        JsonElement none = Json("retention", _temp.StorePath).GetProperty("retention");
        Assert.Equal(JsonValueKind.Null, none.GetProperty("maxBytes").ValueKind);
    }

    /// <summary>Nobody was told that the store keeps more: the newest segment stays, whatever its length.</summary>
    [Fact]
    public void Retention_LessThanASegment_SaysWhatStays()
    {
        Produce();

        Assert.Contains("maxBytes=1,", ToolRun.Of("retention", _temp.StorePath, "--max-bytes", "1").Expect(0).Error,
            StringComparison.Ordinal);
        Assert.Empty(ToolRun.Of("retention", _temp.StorePath, "--max-bytes", "1GiB").Expect(0).Error);
    }

    /// <summary>The command showed the old policy, as if nothing had been asked for.</summary>
    [Fact]
    public void Retention_InfiniteAge_ReplacesThePolicy()
    {
        Produce();
        ToolRun.Of("retention", _temp.StorePath, "--max-age", "72h").Expect(0);

        JsonElement policy = Json("retention", _temp.StorePath, "--max-age", "infinite").GetProperty("retention");

        Assert.Equal(JsonValueKind.Null, policy.GetProperty("maxAge").ValueKind);
    }

    /// <summary>The command ended before its thread had removed anything, and nobody else had the store open.</summary>
    [Fact]
    public void Retention_NobodyElseIsAttached_IsAppliedWhenTheCommandReturns()
    {
        Produce();

        string text = ToolRun.Of("retention", _temp.StorePath, "--max-bytes", "8KiB").Expect(0).Text;

        Assert.Matches(@"log start +20,480\n", text);
    }

    [Fact]
    public void Retention_PolicyIsDamaged_IsSaid()
    {
        Produce();
        ToolRun.Of("retention", _temp.StorePath, "--max-bytes", "1GiB").Expect(0);
        string file = Path.Combine(_temp.StorePath, "retention");
        byte[] bytes = File.ReadAllBytes(file);
        bytes[20] ^= 1;
        File.WriteAllBytes(file, bytes);

        Assert.Matches("retention +the policy is damaged", ToolRun.Of("info", _temp.StorePath).Expect(0).Text);
        Assert.Matches("policy +the policy is damaged", ToolRun.Of("retention", _temp.StorePath).Expect(0).Text);
    }

    [Fact]
    public void Trim_OffsetAndTime_RemovesWholeSegmentsAndDryRunNone()
    {
        Produce();

        JsonElement dry = Json("trim", _temp.StorePath, "--before", "9000", "--dry-run");
        Assert.Equal(8192, dry.GetProperty("keptOffset").GetInt64());
        Assert.Equal(0, dry.GetProperty("firstOffset").GetInt64());
        string same = ToolRun.Of("trim", _temp.StorePath, "--before", "2001-01-01T00:00Z").Expect(0).Text;
        Assert.Contains("log start is 0", same, StringComparison.Ordinal);
        string text = ToolRun.Of("trim", _temp.StorePath, "--before", "9000").Expect(0).Text;

        Assert.Contains("log start is 8,192", text, StringComparison.Ordinal);
        Assert.Equal(8192, Json("info", _temp.StorePath).GetProperty("logStart").GetInt64());
        // All but the current segment were written by now.
        Assert.Equal(24576, Json("trim", _temp.StorePath, "--before", "2999-01-01T00:00Z").GetProperty("keptOffset").GetInt64());
    }

    private static JsonElement Json(params string[] arguments) =>
        JsonDocument.Parse(ToolRun.Of([.. arguments, "--output", "json"]).Expect(0).Output).RootElement;

    private void Produce() =>
        ToolRun.Of("produce", _temp.StorePath, "--messages", "200", "--size", "120", "--segment-size", "4096").Expect(0);
}
