using System.Globalization;
using System.Runtime.Versioning;
using MappedFileQueues.Files;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Files.Appending;

/// <summary>
/// A roll that cannot be done is not a write that cannot be done: the stream closed its file before the next one was certain, so
/// that every later line was refused.
/// </summary>
public sealed class AppendFilePutOffTests : IDisposable
{
    private const string NextName = "app.roll-next.log";
    private const int LineCount = 600;

    private readonly TempStore _temp = new(createStoreFolder: true);
    private readonly FaultyDisk _disk = new();
    private readonly ManualTime _time = new();

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    /// <summary>The next file cannot be made, cannot get the name, or this one cannot get a number.</summary>
    [Theory]
    [InlineData(DiskCall.Open, NextName, false)]
    [InlineData(DiskCall.Open, NextName, true)]
    [InlineData(DiskCall.Rename, "app.log", false)]
    [InlineData(DiskCall.Rename, "app.log", true)]
    [InlineData(DiskCall.Rename, "app.roll-000001.log", false)]
    internal void Roll_CannotBeDone_ContinuesInTheFileAndRollsLater(DiskCall failing, string failingName, bool givesZeros)
    {
        bool fails = true;
        bool wasReached = false;
        _disk.Before = (call, name) =>
        {
            if (!fails || call != failing || name != failingName)
                return;

            // The name is taken back by a renaming to the same name, which succeeds.
            wasReached = !wasReached || failingName != "app.log";
            if (wasReached)
                throw FaultyDisk.Broken(name);
        };
        int rolledCount = 0;
        using (AppendFileStream stream = new(FilePath, new AppendFileOptions
        {
            RollLength = 10_000,
            BufferLength = 8192,
            Content = FileContent.Lines,
            Preallocation = givesZeros ? FilePreallocation.WrittenZeros : FilePreallocation.None,
            TimeProvider = _time,
        }))
        {
            for (int i = 0; i < LineCount; i++)
            {
                stream.Write(LineMaker.Line(0, i));
                if (i % 7 == 0)
                    stream.Flush();
                if (i != LineCount / 2)
                    continue;
                Assert.Empty(RolledFiles());
                fails = false;
                rolledCount = RolledFiles().Length;
            }
        }

        Assert.True(RolledFiles().Length > rolledCount);
        byte[] all = [.. RolledFiles().Append(FilePath).SelectMany(File.ReadAllBytes)];
        Assert.Equal([.. Enumerable.Range(0, LineCount).SelectMany(i => LineMaker.Line(0, i))], all);
    }

    /// <summary>A process that appended to the log by its name made it anew between the renamings: the stream ended.</summary>
    [Fact]
    public void Roll_NameIsTakenBetweenTheRenamings_KeepsTheForeignFileAndContinues()
    {
        bool isDone = false;
        _disk.Before = (call, name) =>
        {
            if (call != DiskCall.Rename || name != "app.log" || isDone)
                return;
            isDone = true;
            File.WriteAllText(FilePath, "foreign\n");
        };
        using (AppendFileStream stream = new(
            FilePath, new AppendFileOptions { RollLength = 10_000, Content = FileContent.Lines }))
        {
            for (int i = 0; i < LineCount; i++)
                stream.Write(LineMaker.Line(0, i));
        }

        Assert.True(isDone);
        Assert.Equal("foreign\n", File.ReadAllText(RolledFiles()[1]));
        byte[] own = [.. RolledFiles().Where((_, at) => at != 1).Append(FilePath).SelectMany(File.ReadAllBytes)];
        Assert.Equal([.. Enumerable.Range(0, LineCount).SelectMany(i => LineMaker.Line(0, i))], own);
    }

    /// <summary>The number after the highest one is below zero: the closed files had names that nobody knew again.</summary>
    [Fact]
    public void Roll_FileWithTheHighestNumberIsThere_CountsAsAnotherProgramsFile()
    {
        string foreign = _temp.PathOf("app.roll-9223372036854775807.log");
        File.WriteAllText(foreign, "foreign");
        using (AppendFileStream stream = new(
            FilePath, new AppendFileOptions { RollLength = 10_000, RetainedFileCount = 2, Content = FileContent.Lines }))
        {
            for (int i = 0; i < LineCount; i++)
                stream.Write(LineMaker.Line(0, i));
        }

        Assert.Equal("foreign", File.ReadAllText(foreign));
        Assert.Equal(2, RolledFiles().Length);
    }

    /// <summary>
    /// The clock was a year ahead when the file was begun (a board without a battery, before it has reached its time server).
    /// After it was put right, no roll by time came for a year.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void RollByTime_ClockWasAheadAndIsPutRight_RollsInTime(bool atMidnight)
    {
        using AppendFileStream stream = new(FilePath, new AppendFileOptions
        {
            RollInterval = atMidnight ? Timeout.InfiniteTimeSpan : TimeSpan.FromDays(1),
            RollAtMidnight = atMidnight,
            TimeProvider = _time,
        });
        stream.Write("one"u8);
        _time.PutBack(TimeSpan.FromDays(365));
        _time.Advance(TimeSpan.FromSeconds(1));
        stream.Flush();
        Assert.Empty(RolledFiles());

        // The writer's thread sees some of the ticks. What it sees of a clock that was put right is its next tick.
        const int HoursMax = 24 * 60;
        int hours = 0;
        Eventually.True(
            () =>
            {
                if (hours++ < HoursMax)
                    _time.Advance(TimeSpan.FromHours(1));
                return RolledFiles().Length > 0;
            },
            "the file is rolled");
    }

    /// <summary>
    /// logrotate's copytruncate on the stream's own file: the stream wrote on at its old place, so that the file began with a
    /// hole, and closing it gave it its old length back: 139,264 zeros of 154,440 bytes.
    /// </summary>
    [Theory]
    [InlineData(FilePreallocation.None, 0)]
    [InlineData(FilePreallocation.WrittenZeros, 0)]
    [InlineData(FilePreallocation.ZeroRange, 0)]
    [InlineData(FilePreallocation.Fallocate, 0)]
    [InlineData(FilePreallocation.None, 150)]
    [SupportedOSPlatform("linux")]
    public void Write_FileWasTruncated_ContinuesAtItsEnd(FilePreallocation preallocation, int length)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Elsewhere a file that is written cannot be truncated by others.");
        const int Rotations = 5;
        using (AppendFileStream stream = new(FilePath, new AppendFileOptions
        {
            BufferLength = 8192,
            Preallocation = preallocation,
            PreallocationLength = 100_000,
            Content = FileContent.Lines,
            FlushInterval = Timeout.InfiniteTimeSpan,
        }))
        {
            int next = 0;
            for (int rotation = 0; rotation < Rotations; rotation++)
            {
                int first = next;
                WriteLines(stream, ref next, 300);
                stream.Flush();
                WriteLines(stream, ref next, 3);
                stream.Flush();
                byte[] kept = WithTornLine(File.ReadAllBytes(FilePath)[..length]);
                Truncate(length);
                WriteLines(stream, ref next, 2);
                stream.Flush();
                Assert.Equal([.. kept, .. LinesOf(first + 303, 2)], Text());
                WriteLines(stream, ref next, 300);
                stream.Flush();
                Assert.Equal([.. kept, .. LinesOf(first + 303, 302)], Text());
                Truncate(0);
            }
        }

        // Nothing was written since, and closing it makes it no longer.
        Assert.Equal(0, new FileInfo(FilePath).Length);
    }

    /// <summary>A log path that is a device was refused only after the lock's file had been made, in /dev.</summary>
    [Fact]
    [SupportedOSPlatform("linux")]
    public void Open_PathIsADevice_LeavesNothingBesideIt()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "/dev is of Unix.");
        string pipe = _temp.PathOf("pipe.log");
        MountedFileSystem.Run("mkfifo", pipe);
        Assert.Throws<QueueDiskException>(() => new AppendFileStream(pipe).Dispose());
        Assert.Equal([pipe], Directory.GetFileSystemEntries(_temp.StorePath));
    }

    private static byte[] LinesOf(int first, int count) =>
        [.. Enumerable.Range(first, count).SelectMany(i => LineMaker.Line(0, i))];

    private static byte[] WithTornLine(byte[] bytes) => bytes is [.., not (byte)'\n'] ? [.. bytes, (byte)'\n'] : bytes;

    private static void WriteLines(AppendFileStream stream, ref int next, int count)
    {
        for (int i = 0; i < count; i++)
            stream.Write(LineMaker.Line(0, next++));
    }

    private void Truncate(int length) =>
        MountedFileSystem.Run("truncate", "-s", length.ToString(CultureInfo.InvariantCulture), FilePath);

    /// <summary>Without the room at its end.</summary>
    private byte[] Text() => [.. File.ReadAllBytes(FilePath).AsSpan().TrimEnd((byte)0)];

    private string[] RolledFiles() =>
        [.. Directory.EnumerateFiles(_temp.StorePath, "app.roll-0*.log").Order(StringComparer.Ordinal)];
}
