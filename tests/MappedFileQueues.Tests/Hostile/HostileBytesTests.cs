using System.Globalization;

namespace MappedFileQueues.Tests.Hostile;

/// <summary>
/// What the files hold is hostile. A small store is damaged in thousands of ways, one after the other, by a child process that
/// reads it back after each: every message that is wholly before the damage must be there, then the end or an exception of
/// the library; never a wrong message, never a crash or a hang, which is why it is a child that does it. Here the portable
/// platform reads them; the crash laboratory does the same on Linux's own.
/// <para>By default a sample, of which the seed is printed; with MFQ_HOSTILE=all every byte and every length. MFQ_SEED
/// repeats a sample.</para>
/// </summary>
[Trait("Category", "Slow")]
public sealed class HostileBytesTests(ITestOutputHelper output)
{
    private const int SamplesPerFile = 12;
    private const int ExitHang = 3;

    private static readonly bool s_isExhaustive = Environment.GetEnvironmentVariable("MFQ_HOSTILE") == "all";

    [Theory]
    [InlineData("messages", "verified", "same", "Throw", "--portable")]
    [InlineData("struct", "verified", "cut", "Throw", "--portable")]
    [InlineData("struct", "verified", "same", "SkipMessage", "--portable")]
    public void Read_DamagedStore_GivesWhatLiesBeforeTheDamage(
        string kind, string reading, string boot, string policy, string platform)
    {
        int seed = Environment.GetEnvironmentVariable("MFQ_SEED") is { } text
            ? int.Parse(text, CultureInfo.InvariantCulture)
            : Random.Shared.Next();
        output.WriteLine($"MFQ_SEED={seed}");
        using TempStore folder = TempStore.InMemory();
        string count = s_isExhaustive ? "all" : SamplesPerFile.ToString(CultureInfo.InvariantCulture);
        string seedText = seed.ToString(CultureInfo.InvariantCulture);
        using ChildProcess child = ChildProcess.StartPeer(
            [platform, "hostile", folder.Root, kind, reading, boot, seedText, count, "0", "1", policy]);
        int code = child.WaitForExit(s_isExhaustive ? TimeSpan.FromHours(1) : TimeSpan.FromMinutes(10));
        Judge(child, code, seed);
    }

    private static void Judge(ChildProcess child, int code, int seed)
    {
        IReadOnlyList<string> lines = child.Lines;
        string last = lines.LastOrDefault(line => line.StartsWith("AT ", StringComparison.Ordinal)) ?? "before the first damage";
        string[] bad = [.. lines.Where(line => line.StartsWith("BAD ", StringComparison.Ordinal))];
        Assert.True(bad.Length == 0, $"MFQ_SEED={seed}, {bad.Length} complaints, the first:\n{string.Join('\n', bad.Take(20))}");
        Assert.True(code != ExitHang, $"MFQ_SEED={seed}: the child hung: {last}");
        Assert.True(code == 0, $"MFQ_SEED={seed}: the child ended with exit code {code}: {last}\n{child.ErrorText}");
        string done = Assert.Single(lines, line => line.StartsWith("DONE ", StringComparison.Ordinal));
        Assert.True(int.Parse(done[5..], CultureInfo.InvariantCulture) > 150, $"Too few damages were tried: {done}");
    }
}
