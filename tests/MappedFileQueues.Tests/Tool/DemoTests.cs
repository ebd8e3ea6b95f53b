using System.Diagnostics;
using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using System.Text.RegularExpressions;

namespace MappedFileQueues.Tests.Tool;

/// <summary>The demo on real files: what comes out is compared with digests that the test computes itself.</summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed partial class DemoTests : IDisposable
{
    private const int LeastLength = 50_000_000;

    /// <summary>Seconds in which any machine sends the least.</summary>
    private const string Enough = "1000";

    private const string TemporaryFolderVariable = "TMPDIR";

    private static readonly Lazy<byte[]> s_text = new(() => TextOfLength(LeastLength, seed: 20_261));

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Demo_OnThePortablePlatform_DigestIsTheFiles()
    {
        byte[] bytes = s_text.Value;
        string file = Write("input.txt", bytes);

        ToolRun run = Run("--portable", file, "--seconds", Enough).Expect(0);

        AssertDigests(bytes, run);
        AssertDeaths(run);
        string messages = bytes.AsSpan().Count((byte)'\n').ToString("N0", CultureInfo.InvariantCulture);
        Assert.Matches($@"messages in +{messages}\n", run.Text);
        Assert.Matches($@"messages out +{messages}\n", run.Text);
        Assert.Matches(@"segments +\d+ of 16,777,216 bytes", run.Text);
    }

    [Fact]
    public void Demo_NoFileNamed_SendsTheTextFilesBelowRoundAndRound()
    {
        Write("b.txt", "second\r\n\n"u8.ToArray());
        Write("a.txt", "first\nwithout newline"u8.ToArray());
        Write("inner/c.md", TextOfLength(100_000, seed: 7));
        Write("inner/zero.bin", [1, 2, 0, 3]);
        Write("empty.txt", []);
        Write(".git/config", "left out\n"u8.ToArray());
        Write("bin/out.txt", "left out\n"u8.ToArray());
        Write("obj/out.txt", "left out\n"u8.ToArray());

        ToolRun run =
            Run("--seconds", Enough, "--dir", Path.Combine(_temp.Root, "demo")).Expect(0);

        byte[] round =
        [
            .. "first\nwithout newline\nsecond\r\n\n"u8, .. File.ReadAllBytes(Path.Combine(_temp.Root, "inner/c.md")),
        ];
        byte[] all = new byte[(LeastLength + round.Length - 1) / round.Length * round.Length];
        for (int at = 0; at < all.Length; at += round.Length)
            round.CopyTo(all, at);
        AssertDigests(all, run);
        AssertDeaths(run);
        Assert.Equal(all.Length, new FileInfo(Path.Combine(_temp.Root, "demo", "output.txt")).Length);
        ToolRun.Of("info", Path.Combine(_temp.Root, "demo", "store")).Expect(0);
    }

    [Fact]
    public void Demo_StartedByItsOwnExecutable_StartsItselfTheSameWay()
    {
        string executable = Path.ChangeExtension(Repository.DemoPath, OperatingSystem.IsWindows() ? ".exe" : null);
        byte[] bytes = s_text.Value;

        ProcessStartInfo start = new(executable, [Write("input.txt", bytes), "--seconds", Enough]);
        start.Environment[TemporaryFolderVariable] = _temp.Root;
        ToolRun run = ToolRun.Start(start, []).Expect(0);

        AssertDigests(bytes, run);
        AssertDeaths(run);
        Assert.Empty(Directory.EnumerateDirectories(_temp.Root));
    }

    [Fact]
    public void Demo_Interrupted_EndsItsProcessesAndRemovesItsFolder()
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "Ctrl-C is sent as a signal.");
        const int SigInt = 2;
        string file = Write("input.txt", s_text.Value);
        Dictionary<string, string> environment = new() { [TemporaryFolderVariable] = _temp.Root };
        using ChildProcess demo = ChildProcess.Start(Repository.DemoPath, [file], environment);
        Eventually.True(
            () => Directory.EnumerateFiles(_temp.Root, "output.txt", SearchOption.AllDirectories).Any(),
            "the consumer process runs");

        demo.Signal(SigInt);

        demo.ExpectExit(130);
        Assert.Equal("mfq: Interrupted.", demo.ErrorText);
        Assert.Empty(Directory.EnumerateDirectories(_temp.Root));
    }

    [Fact]
    public void Demo_OutputIsTamperedWith_ExitCodeOne()
    {
        string folder = Path.Combine(_temp.Root, "demo");
        string output = Path.Combine(folder, "output.txt");
        string file = Write("input.txt", s_text.Value);
        using ChildProcess demo = ChildProcess.Start(Repository.DemoPath, [file, "--seconds", "8", "--dir", folder]);

        // The consumer writes each place once, so what is changed after it stays changed.
        Eventually.True(() => new FileInfo(output) is { Exists: true, Length: > 1_000_000 }, "something is written out");
        using (FileStream stream = new(output, FileMode.Open, FileAccess.Write, FileShare.ReadWrite))
            stream.WriteByte((byte)'#');

        demo.ExpectExit(1, TimeSpan.FromMinutes(5));
        Assert.Contains(demo.Lines, line => line.StartsWith("DIFFERENT", StringComparison.Ordinal));
    }

    [Fact]
    public void Demo_FolderHoldsAStore_OneLineAndTheStoreIsUntouched()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "1").Expect(0);
        string[] before = StoreSnapshot.Of(_temp.Root);

        Run("--dir", _temp.StorePath).ExpectError(_temp.StorePath);
        Run("--dir", _temp.Root).ExpectError(_temp.Root);

        Assert.Equal(before, StoreSnapshot.Of(_temp.Root));
    }

    [Fact]
    public void Demo_NoTextFile_OneLine()
    {
        Write("binary", [0, 1, 2]);

        Run().ExpectError("No text file");
        Run(Path.Combine(_temp.Root, "none")).ExpectError("none");
    }

    /// <summary>Runs the demo to its end in the folder of the test.</summary>
    private ToolRun Run(params IEnumerable<string> arguments)
    {
        ProcessStartInfo start = BuiltProgram.StartInfo(Repository.DemoPath, arguments);
        start.WorkingDirectory = _temp.Root;
        return ToolRun.Start(start, []);
    }

    private static void AssertDigests(byte[] expected, ToolRun run)
    {
        string digest = Convert.ToHexStringLower(SHA256.HashData(expected));
        Assert.Contains($"SHA-256 in   {digest}\n", run.Text, StringComparison.Ordinal);
        Assert.Contains($"SHA-256 out  {digest}\n", run.Text, StringComparison.Ordinal);
    }

    private static void AssertDeaths(ToolRun run)
    {
        string title = OperatingSystem.IsWindows() ? "Killed with TerminateProcess" : "Killed with SIGKILL";
        Assert.Contains(title, run.Text, StringComparison.Ordinal);
        Assert.Matches(ProducerDeath(), run.Text);
        Match consumer = ConsumerDeath().Match(run.Text);
        Assert.True(consumer.Success, run.Text);
        int unread = int.Parse(consumer.Groups["unread"].Value, NumberStyles.AllowThousands, CultureInfo.InvariantCulture);
        Assert.InRange(unread, 1000, int.MaxValue);
    }

    [GeneratedRegex(@"producer +\d+ +in mid-burst")]
    private static partial Regex ProducerDeath();

    [GeneratedRegex(@"consumer +\d+ +with messages unread +[\d,]+ +(?<unread>[\d,]+)")]
    private static partial Regex ConsumerDeath();

    /// <summary>Lines of many lengths, empty ones and one of a megabyte among them, and bytes that are no UTF-8.</summary>
    private static byte[] TextOfLength(int length, int seed)
    {
        Random random = new(seed);
        byte[] text = new byte[length];
        random.NextBytes(text);
        int lineLength = 0;
        for (int index = 0; index < length; index++)
        {
            if (lineLength-- == 0)
            {
                text[index] = (byte)'\n';
                lineLength = index is > 20_000_000 and < 20_000_500 ? 1_000_000 : random.Next(8) * random.Next(20);
            }
            else if (text[index] is (byte)'\n' or 0)
            {
                text[index] = (byte)'.';
            }
        }

        text[^1] = (byte)'\n';
        return text;
    }

    private string Write(string name, byte[] bytes)
    {
        string path = Path.Combine(_temp.Root, name);
        Directory.CreateDirectory(Path.GetDirectoryName(path)!);
        File.WriteAllBytes(path, bytes);
        return path;
    }
}
