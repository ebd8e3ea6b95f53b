using System.Globalization;
using System.Text;

namespace MappedFileQueues.Tests.Files.Reading;

/// <summary>
/// A process that reads a mapping of a file is killed when somebody truncates the file. Reading lines must give an exception
/// instead, however often it happens: a child reads while this process truncates the file and lets it grow again, thousands of
/// times.
/// </summary>
[Trait("Category", "Slow")]
public sealed class TruncationTests
{
    private const int LineLength = 50;
    private const int Lines = 40_000;
    private const int Rounds = 3_000;
    private const int RoundsWithoutPause = 100;

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Lines_TruncatedAndGrownAgainWithoutEnd_NeverEndTheProcess(bool portable)
    {
        int seed = Environment.TickCount;
        TestContext.Current.TestOutputHelper!.WriteLine($"seed {seed}");
        System.Random random = new(seed);
        byte[] content = Content();
        using FileUnderTest file = new(content);
        string[] arguments = ["read-lines", file.Path, LineLength.ToString(CultureInfo.InvariantCulture)];
        using ChildProcess child = ChildProcess.StartPeer(portable ? ["--portable", .. arguments] : arguments);
        child.WaitForLine("READY");
        TruncateAndGrow(file.Path, content, random, child, () => child.Lines.Count >= 3);
        child.Input.Close();
        string result = child.WaitForLine(line => line.StartsWith("DONE", StringComparison.Ordinal));
        child.ExpectExit();
        string[] counts = result.Split(' ');
        Assert.True(int.Parse(counts[1], CultureInfo.InvariantCulture) > 0, $"no file was read to its end: {result}");
        Assert.True(int.Parse(counts[2], CultureInfo.InvariantCulture) > 0, $"no truncation was met: {result}");
    }

    /// <summary>The twin that shows what is at stake, and that the test above would see it.</summary>
    [Fact]
    public void AMapping_TruncatedAndGrownAgainWithoutEnd_EndsTheProcess()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Elsewhere a mapped file may not be truncated at all.");
        byte[] content = Content();
        using FileUnderTest file = new(content);
        using ChildProcess child = ChildProcess.StartPeer("read-lines", file.Path, "mapped");
        child.WaitForLine("READY");
        TruncateAndGrow(file.Path, content, new System.Random(1), child, () => child.HasExited);
        Assert.True(child.HasExited);
        Assert.NotEqual(0, child.WaitForExit());
    }

    /// <summary>
    /// Goes on beyond the rounds until the child has met what it is to meet: on a busy machine it may not have run yet.
    /// </summary>
    private static void TruncateAndGrow(
        string path, byte[] content, System.Random random, ChildProcess child, Func<bool> isMet)
    {
        long began = Environment.TickCount64;
        using FileStream changed = new(path, FileMode.Open, FileAccess.Write, FileShare.ReadWrite, bufferSize: 0);
        for (int round = 0; !child.HasExited; round++)
        {
            if (round >= Rounds && (isMet() || Environment.TickCount64 - began > Eventually.DefaultDeadline.TotalMilliseconds))
                return;
            int length = random.Next(content.Length);
            changed.SetLength(length);
            changed.Position = length;
            changed.Write(content.AsSpan(length));
            // A reader on a busy machine needs a while without a change to come to the end of the file.
            if (round % RoundsWithoutPause == 0 || round > Rounds)
                Thread.Sleep(20);
        }
    }

    private static byte[] Content()
    {
        StringBuilder text = new();
        for (int i = 0; i < Lines; i++)
            text.Append(CultureInfo.InvariantCulture, $"{i * LineLength:D20}").Append('x', LineLength - 21).Append('\n');
        return Encoding.ASCII.GetBytes(text.ToString());
    }
}
