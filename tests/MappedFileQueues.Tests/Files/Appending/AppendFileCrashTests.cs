using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Files;

namespace MappedFileQueues.Tests.Files.Appending;

/// <summary>
/// A process is killed while it writes; what it had flushed is there, and no zeros once the file is opened again.
/// </summary>
[Trait("Category", "Slow")]
public sealed class AppendFileCrashTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    public static TheoryData<FilePreallocation, bool, bool> Cases() => new()
    {
        { FilePreallocation.None, false, false },
        { FilePreallocation.Fallocate, false, false },
        { FilePreallocation.ZeroRange, false, false },
        { FilePreallocation.WrittenZeros, false, false },
        { FilePreallocation.WrittenZeros, true, false },
        { FilePreallocation.WrittenZeros, true, true },
        { FilePreallocation.ZeroRange, true, true },
        { FilePreallocation.None, true, true },
    };

    [Theory]
    [MemberData(nameof(Cases))]
    public void Kill_InMidWrite_FlushedLinesAreThereAndNoZeros(FilePreallocation preallocation, bool rolls, bool portable)
    {
        Assert.SkipUnless(portable || OperatingSystem.IsLinux(), "The Linux platform exists on Linux only.");
        int seed = Random.Shared.Next();
        TestContext.Current.TestOutputHelper?.WriteLine($"seed={seed}");
        Random random = new(seed);
        int lines = 0;
        for (int round = 0; round < 4; round++)
        {
            string[] platform = portable ? ["--portable"] : [];
            using ChildProcess child = ChildProcess.StartPeer(
                [.. platform, "append", FilePath, preallocation.ToString(), rolls ? "60000" : "0",
                    lines.ToString(CultureInfo.InvariantCulture)]);
            int flushesAtLeast = random.Next(1, 60);
            child.WaitForLine(line => line.StartsWith("flushed ", StringComparison.Ordinal) && --flushesAtLeast <= 0);
            child.KillAndWait();
            int flushed = int.Parse(
                child.Lines.Last(line => line.StartsWith("flushed ", StringComparison.Ordinal)).Split(' ')[1],
                CultureInfo.InvariantCulture);

            new AppendFileStream(FilePath).Dispose();

            string[] files =
                [.. Directory.EnumerateFiles(_temp.StorePath, "app.roll-0*.log").Order(StringComparer.Ordinal), FilePath];
            using MemoryStream all = new();
            foreach (string file in files)
                all.Write(File.ReadAllBytes(file));
            byte[] bytes = all.ToArray();
            Assert.Equal(-1, bytes.AsSpan().IndexOf((byte)0));
            // The last line may be there in part: it is cut off for the next round, as a reader of lines would pass over it.
            int whole = bytes.AsSpan().LastIndexOf((byte)'\n') + 1;
            lines = LineSet.Count(bytes.AsSpan(0, whole), 1)[0];
            Assert.True(lines >= flushed, $"{lines} lines are there, {flushed} were flushed.");
            byte[] last = File.ReadAllBytes(FilePath);
            File.WriteAllBytes(FilePath, last[..^(bytes.Length - whole)]);
            Assert.Equal(files.Length + 1, Directory.EnumerateFileSystemEntries(_temp.StorePath).Count());
        }
    }

    /// <summary>
    /// RLIMIT_FSIZE, in the middle of a write: the part below it is written, and the error says how much that is.
    /// </summary>
    [Fact]
    public void Write_LimitOfFileSizes_SaysWhatIsWritten()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The limit is set by the shell.");
        const int limit = 3_000_000 / 1024 * 1024;
        // The runtime's memory for code would be a file of its own, and too long: children do without it.
        using ChildProcess child = ChildProcess.Start(
            new ProcessStartInfo("bash",
            [
                "-c", $"ulimit -c 0; trap '' XFSZ; ulimit -f {limit / 1024}; exec dotnet exec \"$@\"", "bash",
                Repository.TestPeerPath, "append", FilePath, nameof(FilePreallocation.None), "0", "0",
            ]));
        Assert.NotEqual(0, child.WaitForExit(TimeSpan.FromMinutes(1)));

        Assert.Contains($"{nameof(AppendFileException)}: Cannot append to the file: path={FilePath}, written={limit},",
            child.ErrorText, StringComparison.Ordinal);
        byte[] bytes = File.ReadAllBytes(FilePath);
        Assert.Equal(limit, bytes.Length);
        int whole = bytes.AsSpan().LastIndexOf((byte)'\n') + 1;
        Assert.True(LineSet.Count(bytes.AsSpan(0, whole), 1)[0] > 1000);
    }

    /// <summary>Whatever a text file ends with, only the zeros go; a binary one is taken as it is.</summary>
    [Theory]
    [InlineData(0, 5000)]
    [InlineData(1, 1)]
    [InlineData(4096, 4096)]
    [InlineData(65_536, 65_536)]
    [InlineData(65_537, 200_000)]
    [InlineData(100_000, 0)]
    public void Open_FileEndsWithZeros_TheyAreCutFromText(int textLength, int zeroCount)
    {
        byte[] bytes = new byte[textLength + zeroCount];
        bytes.AsSpan(0, textLength).Fill((byte)'x');
        File.WriteAllBytes(FilePath, bytes);
        new AppendFileStream(FilePath).Dispose();
        Assert.Equal(bytes.Length, new FileInfo(FilePath).Length);

        using (AppendFileStream stream = new(FilePath, new AppendFileOptions { Content = FileContent.Text }))
        {
            Assert.Equal(textLength, new FileInfo(FilePath).Length);
            stream.Write("more"u8);
        }

        Assert.Equal([.. bytes[..textLength], .. "more"u8], File.ReadAllBytes(FilePath));
    }
}
