using System.Collections.Concurrent;
using MappedFileQueues.Files;
using MappedFileQueues.Files.Names;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Files.Appending;

/// <summary>One file after the other: every write whole in one of them, the oldest deleted or used again.</summary>
public sealed class AppendFileRollTests : IDisposable
{
    private const int RollLength = 50_000;

    private readonly TempStore _temp = new(createStoreFolder: true);

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(false, FilePreallocation.None)]
    [InlineData(false, FilePreallocation.Fallocate)]
    [InlineData(false, FilePreallocation.ZeroRange)]
    [InlineData(false, FilePreallocation.WrittenZeros)]
    [InlineData(true, FilePreallocation.None)]
    [InlineData(true, FilePreallocation.WrittenZeros)]
    public void Write_RollsByLength_EveryWriteIsWholeInOneFile(bool portable, FilePreallocation preallocation)
    {
        PlatformScope.Use(portable);
        const int LineCount = 4000;
        AppendFileOptions options = new()
        {
            BufferLength = 16 * 1024,
            RollLength = RollLength,
            Preallocation = preallocation,
            Content = FileContent.Text,
            Durability = AppendDurability.PageCache,
        };
        // Closed and opened on the way: the numbers continue.
        for (int part = 0; part < 4; part++)
        {
            using AppendFileStream stream = new(FilePath, options);
            for (int i = 0; i < LineCount / 4; i++)
                stream.Write(LineMaker.Line(0, part * LineCount / 4 + i));
            stream.Flush(durable: true);
            Assert.Equal(stream.AcceptedLength, stream.FlushedLength);
        }

        string[] files = [.. RolledFiles(), FilePath];
        Assert.InRange(files.Length, 5, 50);
        Assert.All(files, file => Assert.InRange(new FileInfo(file).Length, 0, RollLength));
        Assert.All(files[..^1], file => Assert.True(new FileInfo(file).Length > RollLength - 20_200, file));
        Assert.All(files, file => Assert.Equal((byte)'\n', File.ReadAllBytes(file)[^1]));
        LineSet.Check(files.SelectMany(File.ReadAllBytes).ToArray(), 1, LineCount);
        AssertNothingElseIsThere(files.Length);
    }

    [Fact]
    public void Write_LongerThanAFile_HasAFileOfItsOwn()
    {
        byte[] huge = new byte[3 * RollLength];
        huge.AsSpan().Fill((byte)'h');
        AppendFileOptions options = new() { RollLength = RollLength, BufferLength = 16 * 1024 };
        using (AppendFileStream stream = new(FilePath, options))
        {
            stream.Write("before"u8);
            stream.Write(huge);
            stream.Write("behind"u8);
        }

        string[] rolled = [.. RolledFiles()];
        Assert.Equal(2, rolled.Length);
        Assert.Equal("before", File.ReadAllText(rolled[0]));
        Assert.Equal(huge, File.ReadAllBytes(rolled[1]));
        Assert.Equal("behind", File.ReadAllText(FilePath));
    }

    /// <summary>
    /// The next file is made when the one before it begins. Its birth counted as its beginning, so a log that is rolled each
    /// midnight was rolled once more whenever its program was started again, as a file of the day before.
    /// </summary>
    [Theory]
    [InlineData(false, false)]
    [InlineData(false, true)]
    [InlineData(true, false)]
    public void Open_FileThatARollBegan_IsAsOldAsTheRoll(bool portable, bool reuses)
    {
        PlatformScope.Use(portable);
        ConcurrentQueue<RolledFile> rolled = [];
        AppendFileOptions options = new()
        {
            RollLength = 1,
            RetainedFileCount = reuses ? 1 : null,
            ReuseOldFiles = reuses,
            Content = FileContent.Text,
            OnRolled = rolled.Enqueue,
        };
        byte[] line = LineMaker.Line(0, 0);
        // The clock of file systems is behind by up to 4 ms, more on a busy machine; that of Windows is less than 1 ms ahead.
        TimeSpan coarse = TimeSpan.FromMilliseconds(250);
        DateTimeOffset earliest, latest;
        using (AppendFileStream stream = new(FilePath, options))
        {
            stream.Write(line);
            stream.Flush();
            Eventually.True(() => File.Exists(_temp.PathOf(new RolledNames("app.log").Next)), "the next file is made");
            Thread.Sleep(3 * coarse);
            earliest = DateTimeOffset.UtcNow - coarse;
            stream.Write(line);
            stream.Flush();
            latest = DateTimeOffset.UtcNow + coarse;
        }

        Thread.Sleep(3 * coarse);
        using (AppendFileStream stream = new(FilePath, options))
            stream.Write(line);

        Eventually.Equal(2, () => rolled.Count);
        Assert.InRange(rolled.Last().Begun, earliest, latest);
    }

    [Fact]
    public void Write_Retention_KeepsTheYoungest()
    {
        AppendFileOptions options = new() { RollLength = 10_000, RetainedFileCount = 2, Durability = AppendDurability.PageCache };
        const int LineCount = 490;
        using (AppendFileStream stream = new(FilePath, options))
        {
            for (int i = 0; i < LineCount; i++)
                stream.Write(LineMaker.Line(0, i));
        }

        string[] files = [.. RolledFiles(), FilePath];
        Assert.Equal(3, files.Length);
        byte[] kept = [.. files.SelectMany(File.ReadAllBytes)];
        byte[] all = [.. Enumerable.Range(0, LineCount).SelectMany(i => LineMaker.Line(0, i))];
        Assert.Equal(all[^kept.Length..], kept);
        Assert.True(kept.Length > 20_000);
        Assert.NotEqual("app.roll-000001.log", Path.GetFileName(files[0]));
    }

    /// <summary>
    /// The same files again and again. Whoever looks into the one being written sees what was written and then zeros, never the
    /// old content after the new.
    /// </summary>
    [Theory]
    [MemberData(nameof(PlatformScope.Platforms), MemberType = typeof(PlatformScope))]
    public void Write_ReusesFiles_OldContentIsNeverSeenBehindTheNew(bool portable)
    {
        PlatformScope.Use(portable);
        AppendFileOptions options = new()
        {
            RollLength = 20_000,
            BufferLength = 8192,
            RetainedFileCount = 1,
            ReuseOldFiles = true,
            Content = FileContent.Text,
            Durability = AppendDurability.PageCache,
        };
        HashSet<FileIdentity> identities = [];
        byte[] all = [.. Enumerable.Range(0, 490).SelectMany(i => LineMaker.Line(0, i))];
        using (AppendFileStream stream = new(FilePath, options))
        {
            for (int round = 0, i = 0; round < 5; round++)
            {
                for (i = 0; i < 490; i++)
                {
                    stream.Write(LineMaker.Line(round, i));
                    if (i % 20 != 0)
                        continue;
                    stream.Flush();
                    AssertShowsOnlyRound(TempStore.ReadOpenFile(FilePath), round);
                    identities.Add(IdentityOf(FilePath));
                }
            }
        }

        Assert.Equal((byte)'\n', File.ReadAllBytes(FilePath)[^1]);
        AssertNothingElseIsThere(2);
        // The current, the kept, the next: as many files as ever existed at once, with one more while the oldest waits.
        if (!portable)
            Assert.InRange(identities.Count, 1, 4);
    }

    [Fact]
    public void Tick_RollIntervalPasses_BeginsTheNextFile()
    {
        ManualTime time = new();
        using AppendFileStream stream = new(
            FilePath, new AppendFileOptions { TimeProvider = time, RollInterval = TimeSpan.FromHours(1) });
        time.Advance(TimeSpan.FromHours(2));
        stream.Write("one"u8);
        time.Advance(TimeSpan.FromSeconds(1));
        Eventually.True(() => RolledFiles().Count() == 1 && File.Exists(FilePath), "the file that is due is rolled");

        // A flush waits for the roll: the new file's age counts from before it.
        stream.Write("two"u8);
        stream.Flush();
        time.Advance(TimeSpan.FromMinutes(59));

        Assert.Equal("one"u8, TempStore.ReadOpenFile(RolledFiles().Single()));
        Assert.Equal("two"u8, TempStore.ReadOpenFile(FilePath));
        time.Advance(TimeSpan.FromMinutes(2));
        Eventually.True(
            () =>
            {
                // A tick that meets a writer at work leaves the roll to the next one.
                time.Advance(TimeSpan.FromSeconds(1));
                return RolledFiles().Count() == 2;
            },
            "the second one too");
    }

    private static void AssertShowsOnlyRound(byte[] bytes, int round)
    {
        int end = bytes.AsSpan().LastIndexOfAnyExcept((byte)0) + 1;
        ReadOnlySpan<byte> text = bytes.AsSpan(0, end);
        foreach (Range line in text.Split((byte)'\n'))
        {
            ReadOnlySpan<byte> value = text[line];
            Assert.True(
                value.IsEmpty || value[0] - '0' == round || (round > 0 && value[0] - '0' == round - 1), $"round={round}");
        }
    }

    private static FileIdentity IdentityOf(string path)
    {
        using HeldDirectory directory =
            CurrentPlatform.Services.OpenDirectory(Path.GetDirectoryName(path)!, create: false, mode: null)!;
        return directory.Identify(Path.GetFileName(path))!.Value;
    }

    private IEnumerable<string> RolledFiles() =>
        Directory.EnumerateFiles(_temp.StorePath, "app.roll-0*.log").Order(StringComparer.Ordinal);

    /// <summary>The lock stays; nothing else does.</summary>
    private void AssertNothingElseIsThere(int fileCount) =>
        Assert.Equal(fileCount + 1, Directory.EnumerateFileSystemEntries(_temp.StorePath).Count());
}
