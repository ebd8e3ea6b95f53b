using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Crash;
using MappedFileQueues.Tests.Platform;
using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Log.Retention;

/// <summary>
/// One bad cursor (a file of another user, a directory, a named pipe) ended every look of retention. The thread swallowed the
/// error, so the disk filled up and nobody heard why; asking for information threw too.
/// </summary>
public sealed class BadCursorTests : IDisposable
{
    private const int SegmentLength = 4096;
    private const string Bad = "offset/consumers/bad.cursor";

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData("mkdir")]
    [InlineData("mkfifo")]
    public void Retention_CursorIsNoFile_GoesOnAndInfoNamesIt(string make)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Named pipes are made on Linux only.");
        using MappedFileQueue queue = Open();
        MountedFileSystem.Run(make, _temp.PathOf(StoreNames.Consumers, "bad.cursor"));
        queue.SetRetention(new RetentionOptions { MaxBytes = SegmentLength });

        long last = Fill(queue);

        Eventually.Equal(StartOf(last), () => queue.GetInfo().LogStart);
        string problem = Assert.Single(queue.GetInfo().CursorProblems);
        Assert.Contains(_temp.PathOf(Bad), problem, StringComparison.Ordinal);
        Assert.Contains("ignores it", problem, StringComparison.Ordinal);
        Assert.Null(queue.GetInfo().RetentionFailingSince);
        queue.Snapshot(Path.Combine(_temp.Root, "copy"));
    }

    [Fact]
    public void Retention_CursorCannotBeRead_KeepsWhatItMayNeedAndSaysSo()
    {
        var disk = new FaultyDisk();
        using MappedFileQueue queue = Open();
        queue.OpenConsumer("bad", QueueStart.Earliest).Dispose();
        Deny(disk);
        queue.SetRetention(new RetentionOptions { MaxBytes = SegmentLength });

        long last = Fill(queue);

        Eventually.True(() => queue.GetInfo().RetentionFailingSince is not null, "the failure is shown");
        MappedFileQueueInfo info = queue.GetInfo();
        Assert.Equal((0, "bad"), (info.LogStart, info.RetentionHeldBy));
        Assert.Contains(Bad, info.LastRetentionError, StringComparison.Ordinal);
        Assert.Equal(Environment.ProcessId, info.RetentionFailingProcessId);
        Assert.Contains("keeps all that the consumer may need", Assert.Single(info.CursorProblems), StringComparison.Ordinal);
        Assert.DoesNotContain(info.Consumers, consumer => consumer.Name == "bad");
        Assert.Equal(0, queue.Trim(long.MaxValue));

        disk.Before = null;
        queue.DeleteConsumer("bad");

        Eventually.Equal(StartOf(last), () => queue.GetInfo().LogStart);
        Eventually.True(() => queue.GetInfo() is { RetentionFailingSince: null, LastRetentionError: null }, "it is over");
    }

    /// <summary>The policy says how much a consumer may keep, so one that cannot be read keeps that much.</summary>
    [Fact]
    public void Retention_CursorCannotBeReadAndKeepingIsLimited_KeepsTheLimit()
    {
        var disk = new FaultyDisk();
        using MappedFileQueue queue = Open();
        queue.OpenConsumer("bad", QueueStart.Earliest).Dispose();
        long last = Fill(queue);
        Deny(disk);

        queue.SetRetention(new RetentionOptions { MaxBytes = SegmentLength, UnconsumedBytesMax = 2 * SegmentLength });

        Eventually.True(() => queue.GetInfo().LogStart > 0, "the rest goes");
        Assert.InRange(queue.GetInfo().LogStart, StartOf(last) - (3 * SegmentLength), StartOf(last) - SegmentLength);
        disk.Before = null;
    }

    /// <summary>
    /// One flipped bit put a cursor after the end: retention removed what its consumer had not read. Zeros made the consumer a
    /// new one, which kept nothing and began anywhere.
    /// </summary>
    [Theory]
    [InlineData(1L << 20)]
    [InlineData(0L)]
    public void Retention_CursorIsDamaged_KeepsAllUntilItsConsumerIsReset(long flipped)
    {
        long last;
        using (MappedFileQueue queue = Open())
        {
            queue.OpenConsumer("bad", QueueStart.Earliest).Dispose();
            last = Fill(queue);
            queue.SetRetention(new RetentionOptions { MaxBytes = SegmentLength });
        }

        byte[] page = File.ReadAllBytes(_temp.PathOf(Bad));
        BitConverter.TryWriteBytes(page, flipped == 0 ? 0 : BitConverter.ToInt64(page) ^ flipped);
        File.WriteAllBytes(_temp.PathOf(Bad), page);

        using MappedFileQueue again = Open(unconsumedMax: 1 << 20);
        Assert.Contains("ResetConsumer", Assert.Throws<QueueCorruptException>(() => again.OpenConsumer("bad")).Message,
            StringComparison.Ordinal);
        Assert.Throws<QueueCorruptException>(() => again.Producer.Produce([1]));
        Assert.Throws<QueueCorruptException>(() => again.Snapshot(Path.Combine(_temp.Root, "copy")));
        Assert.Equal(0, again.Trim(long.MaxValue));
        MappedFileQueueInfo info = again.GetInfo();
        Assert.Equal((0, "bad"), (info.LogStart, info.RetentionHeldBy));
        Assert.Contains("is damaged", Assert.Single(info.CursorProblems), StringComparison.Ordinal);

        again.ResetConsumer("bad", QueueStart.Latest);

        Assert.Empty(again.GetInfo().CursorProblems);
        Assert.Equal(StartOf(last), again.Trim(long.MaxValue));
        again.Producer.Produce([1]);
    }

    /// <summary>Its owner says that consumers keep nothing, so a damaged cursor is no reason to keep anything.</summary>
    [Fact]
    public void Trim_CursorIsDamagedAndNothingUnreadIsKept_Removes()
    {
        using MappedFileQueue queue = Open();
        queue.OpenConsumer("bad", QueueStart.Earliest).Dispose();
        File.WriteAllBytes(_temp.PathOf(Bad), new byte[CursorWord.FileLength]);
        long last = Fill(queue);

        queue.SetRetention(new RetentionOptions { MaxBytes = SegmentLength, KeepUnconsumed = false });

        Assert.Equal(StartOf(last), queue.Trim(long.MaxValue));
    }

    /// <summary>
    /// A power loss leaves a page of zeros where a file has its length before its bytes. So a cursor gets its name only after
    /// its page is on disk, and zeros are damage.
    /// </summary>
    [Fact]
    public void OpenConsumer_NewName_PageIsOnDiskBeforeTheFileHasItsName()
    {
        var disk = new FaultyDisk();
        using MappedFileQueue queue = Open();
        bool isSynced = false;
        bool wasSynced = false;
        disk.Before = (call, name) =>
        {
            isSynced |= call == DiskCall.Sync && name == $"{Bad}.tmp";
            wasSynced |= call == DiskCall.Rename && isSynced;
        };

        queue.OpenConsumer("bad").Dispose();

        disk.Before = null;
        Assert.True(wasSynced);
    }

    /// <summary>A process that dies before the file has its name leaves the temporary one, for ever if nobody takes it.</summary>
    [Fact]
    public void Open_MakerOfACursorHasDied_RemovesWhatItLeft()
    {
        Open().Dispose();
        File.WriteAllBytes(_temp.PathOf($"{Bad}.tmp"), []);
        File.WriteAllBytes(_temp.PathOf("offset/consumer.cursor.tmp"), []);

        Open().Dispose();

        Assert.Empty(Directory.EnumerateFiles(_temp.StorePath, "*.tmp", SearchOption.AllDirectories));
    }

    /// <summary>A removal needs no right to write a cursor: it only syncs it.</summary>
    [Theory]
    [InlineData("644", true)]
    [InlineData("600", false)]
    public void Trim_CursorOfAnotherUser_GoesOnWhereItCanBeRead(string mode, bool isReadable)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && Environment.IsPrivilegedProcess, "Giving up rights needs root on Linux.");
        using (MappedFileQueue queue = Open())
        {
            Fill(queue);
            queue.OpenConsumer("bad", QueueStart.Latest).Dispose();
        }

        MountedFileSystem.Run("chown", "-R", "65534:65534", _temp.Root);
        MountedFileSystem.Run("chown", "0:0", _temp.PathOf(Bad));
        MountedFileSystem.Run("chmod", mode, _temp.PathOf(Bad));

        string trimmed = RunAsNobody("trim", "--before", "8192");
        string info = RunAsNobody("info");

        Assert.StartsWith(isReadable ? "8,192 bytes removed" : "0 bytes removed", trimmed, StringComparison.Ordinal);
        Assert.Equal(!isReadable, info.Contains("bad.cursor", StringComparison.Ordinal));
    }

    /// <summary>A handler that could not archive kept every segment, and nobody was told.</summary>
    [Fact]
    public void Retention_HandlerThrows_IsShownUntilItDoesNot()
    {
        using MappedFileQueue queue = Open();
        bool isBroken = true;
        queue.SegmentDeleting += (_, _) =>
        {
            if (Volatile.Read(ref isBroken))
                throw new InvalidOperationException("the archive is full");
        };
        queue.SetRetention(new RetentionOptions { MaxBytes = SegmentLength });

        Fill(queue);

        Eventually.Equal("the archive is full", () => queue.GetInfo().LastRetentionError);
        Volatile.Write(ref isBroken, false);
        Eventually.True(() => queue.GetInfo().RetentionFailingSince is null, "it is over");
    }

    private static void Deny(FaultyDisk disk) => disk.Before = (call, name) =>
    {
        if (call == DiskCall.Open && name == Bad)
            throw new QueueDiskException($"Cannot open the file: path={name}, errno=13.", DiskErrors.EACCES, name);
    };

    private string RunAsNobody(string command, params string[] options)
    {
        string[] asNobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        ProcessStartInfo start = new(
            "setpriv", [.. asNobody, "dotnet", "exec", Repository.ToolPath, command, _temp.StorePath, .. options]);
        start.Environment["HOME"] = "/nonexistent";
        return ToolRun.Start(start, []).Expect(0).Text;
    }

    private static long Fill(MappedFileQueue queue)
    {
        long last = 0;
        for (int i = 0; i < 300; i++)
            last = queue.Producer.Produce(CrashMessage.Make($"m{i}", 64));
        return last;
    }

    private static long StartOf(long offset) => offset / SegmentLength * SegmentLength;

    private MappedFileQueue Open(long unconsumedMax = 0) => new(new MappedFileQueueOptions
    {
        StorePath = _temp.StorePath,
        SegmentSize = SegmentLength,
        MaxUnconsumedBytes = unconsumedMax,
    });
}
