using System.Collections.Concurrent;
using MappedFileQueues.Files;
using MappedFileQueues.Files.Names;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Files.Appending;

/// <summary>Rolls whose calls fail, once or for good, and what they do not depend on.</summary>
public sealed class AppendFileRollFaultTests : IDisposable
{
    private const string NextName = "app.roll-next.log";

    private readonly TempStore _temp = new(createStoreFolder: true);
    private readonly FaultyDisk _disk = new();

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// The next file was made by an item of the thread pool. An application whose pool threads all waited for room in the log
    /// left none to make the file, so that the roll, which would have given the room, waited for them.
    /// </summary>
    [Fact]
    public void Roll_NextFile_IsNotMadeByTheThreadPool()
    {
        ConcurrentQueue<bool> makers = [];
        _disk.Before = (call, name) =>
        {
            if (call == DiskCall.Open && name == NextName)
                makers.Enqueue(Thread.CurrentThread.IsThreadPoolThread);
        };
        using (AppendFileStream stream = new(FilePath, new AppendFileOptions { RollLength = 10_000 }))
            WriteLines(stream, 490);

        Assert.True(makers.Count > 2);
        Assert.DoesNotContain(true, makers);
    }

    /// <summary>
    /// A process had no descriptor left for a moment, while the next file was made in the background. The error was kept until
    /// the roll that wanted this file, maybe hours later, and ended the stream.
    /// </summary>
    [Theory]
    [InlineData(DiskCall.Open, false)]
    [InlineData(DiskCall.Open, true)]
    [InlineData(DiskCall.Sync, false)]
    [InlineData(DiskCall.Sync, true)]
    [InlineData(DiskCall.Rename, true)]
    internal void Roll_NextFileCouldNotBeMadeBefore_IsMadeNow(DiskCall failing, bool reuses)
    {
        int failures = 0;
        _disk.Before = (call, name) =>
        {
            if (call == failing && name == NextName && Interlocked.Increment(ref failures) == 1)
                throw FaultyDisk.Broken(name);
        };
        AppendFileOptions options = new()
        {
            RollLength = 10_000,
            RetainedFileCount = 3,
            ReuseOldFiles = reuses,
            Content = FileContent.Text,
        };
        using (AppendFileStream stream = new(FilePath, options))
            WriteLines(stream, 490);

        Assert.True(failures > 0);
        string[] files = [.. RolledFiles(), FilePath];
        Assert.Equal(4, files.Length);
        byte[] kept = [.. files.SelectMany(File.ReadAllBytes)];
        byte[] all = [.. Enumerable.Range(0, 490).SelectMany(i => LineMaker.Line(0, i))];
        Assert.Equal(all[^kept.Length..], kept);
        Assert.Equal(5, Directory.EnumerateFileSystemEntries(_temp.StorePath).Count());
    }

    /// <summary>
    /// The directory could not be flushed after the renaming. The stream ended the new file at the length of the old one, so
    /// that it held zeros that nobody had written.
    /// </summary>
    [Theory]
    [InlineData(DiskCall.Rename)]
    [InlineData(DiskCall.SyncEntries)]
    internal void Roll_FailsBehindTheOldFile_TheNewOneHoldsNothing(DiskCall failing)
    {
        bool isRenamed = false;
        _disk.Before = (call, name) =>
        {
            isRenamed |= call == DiskCall.Renamed && name == "app.log";
            if (failing == DiskCall.Rename ? call == failing && name == "app.log" : call == failing && isRenamed)
                throw FaultyDisk.Broken(name);
        };
        AppendFileStream stream = new(FilePath, new AppendFileOptions
        {
            RollLength = 10_000,
            Content = FileContent.Binary,
            FlushInterval = Timeout.InfiniteTimeSpan,
        });
        Action writeOn = () =>
        {
            WriteLines(stream, 490);
            stream.Flush();
        };
        AppendFileException error = Assert.Throws<AppendFileException>(writeOn);
        Assert.Throws<AppendFileException>(stream.Dispose);

        // Not the name under which the new file was made.
        Assert.Equal(FilePath, error.Path);
        byte[] rolled = File.ReadAllBytes(RolledFiles().Single());
        Assert.Equal(error.WrittenLength, rolled.Length);
        Assert.Equal(-1, rolled.AsSpan().IndexOf((byte)0));
        string[] others = [.. Directory.EnumerateFiles(_temp.StorePath).Except(RolledFiles())];
        Assert.All(others, path => Assert.Empty(File.ReadAllBytes(path)));
    }

    /// <summary>
    /// A process may have been killed between the renaming that gave the file its name and the flush of the directory. The next
    /// stream took the name for flushed, and a power loss could take the file with all that this stream had acknowledged.
    /// </summary>
    [Fact]
    public void Flush_FileWasThereBefore_ItsNameIsFlushedOnce()
    {
        File.WriteAllText(FilePath, "old");
        int flushes = 0;
        _disk.Before = (call, _) => flushes += call == DiskCall.SyncEntries ? 1 : 0;
        using AppendFileStream stream = new(FilePath, new AppendFileOptions { Durability = AppendDurability.Group });
        stream.Write("one"u8);
        Assert.Equal(1, flushes);
        stream.Write("two"u8);
        Assert.Equal(1, flushes);
    }

    /// <summary>
    /// Logrotate has moved the file, and maybe made one in its place, before a roll. The bytes in the moved file had not reached
    /// the disk, and the flush that said so looked at the names only. `OnRolled` got the other program's file, with the length
    /// of the moved one.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void FlushDurable_FileWasMovedBeforeItsRoll_ItIsFlushedToo(bool isMadeAnew)
    {
        // .NET alone cannot tell two files of a name apart.
        isMadeAnew &= OperatingSystem.IsLinux();
        int syncs = 0;
        _disk.Before = (call, _) => syncs += call == DiskCall.Sync ? 1 : 0;
        ConcurrentQueue<RolledFile> rolled = [];
        using (AppendFileStream stream = new(FilePath, new AppendFileOptions
        {
            Durability = AppendDurability.PageCache,
            RollLength = 10_000,
            OnRolled = rolled.Enqueue,
        }))
        {
            stream.Write(new byte[9_000]);
            stream.Flush();
            File.Move(FilePath, FilePath + ".1");
            if (isMadeAnew)
                File.WriteAllText(FilePath, "other");
            stream.Write(new byte[5_000]);
            stream.Flush();
            stream.Flush(durable: true);
        }

        Assert.Equal(isMadeAnew ? 3 : 2, syncs);
        Assert.Empty(rolled);
        Assert.Equal(9_000, new FileInfo(FilePath + ".1").Length);
        Assert.Equal(5_000, new FileInfo(FilePath).Length);
    }

    /// <summary>
    /// The same, but logrotate moved the file after its roll. The flush looked for it by the number that the roll had given it,
    /// found nothing, or another file, and said that everything was on disk.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void FlushDurable_FileWasMovedAfterItsRoll_TheFileSystemIsFlushed(bool isReplaced)
    {
        // .NET alone cannot tell two files of a name apart.
        isReplaced &= OperatingSystem.IsLinux();
        int syncs = 0;
        _disk.Before = (call, _) => syncs += call == DiskCall.SyncFileSystem ? 1 : 0;
        using AppendFileStream stream = new(FilePath, new AppendFileOptions
        {
            Durability = AppendDurability.PageCache,
            RollLength = 10_000,
        });
        stream.Write(new byte[9_000]);
        stream.Write(new byte[5_000]);
        stream.Flush();
        string rolled = RolledFiles().Single();
        File.Move(rolled, FilePath + ".1");
        if (isReplaced)
            File.WriteAllText(rolled, "other");
        stream.Flush(durable: true);
        Assert.Equal(1, syncs);

        // Not again: it is on disk.
        stream.Write(new byte[1_000]);
        stream.Flush(durable: true);
        Assert.Equal(1, syncs);
    }

    /// <summary>
    /// The same, and the retention then deletes the name. The moved file counted as deleted, and what was in it as flushed.
    /// </summary>
    [Theory]
    [InlineData(false, false)]
    [InlineData(true, false)]
    [InlineData(false, true)]
    [InlineData(true, true)]
    public void FlushDurable_FileWasMovedBeforeRetentionDeletedItsName_TheFileSystemIsFlushed(bool isLinked, bool reuses)
    {
        // .NET alone does not see links.
        isLinked &= OperatingSystem.IsLinux();
        int syncs = 0;
        _disk.Before = (call, _) => syncs += call == DiskCall.SyncFileSystem ? 1 : 0;
        using AppendFileStream stream = new(FilePath, new AppendFileOptions
        {
            Durability = AppendDurability.PageCache,
            RollLength = 10_000,
            RetainedFileCount = 1,
            ReuseOldFiles = reuses,
            Content = FileContent.Text,
        });
        WriteUntilRolled(1);
        string rolled = RolledFiles().Single();
        if (isLinked)
            MountedFileSystem.Run("ln", rolled, FilePath + ".1");
        else
            File.Move(rolled, FilePath + ".1");
        WriteUntilRolled(3);
        stream.Flush(durable: true);
        Assert.Equal(1, syncs);

        // Not again: it is on disk.
        WriteUntilRolled(4);
        stream.Flush(durable: true);
        Assert.Equal(1, syncs);

        void WriteUntilRolled(int number)
        {
            while (!File.Exists(_temp.PathOf($"app.roll-{number:D6}.log")))
            {
                WriteLines(stream, 100);
                stream.Flush();
            }
        }
    }

    /// <summary>What the stream itself has deleted needs no flush.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void FlushDurable_RetentionHasDeletedFiles_OnlyFilesAreFlushed(bool reuses)
    {
        int syncs = 0;
        _disk.Before = (call, _) => syncs += call == DiskCall.SyncFileSystem ? 1 : 0;
        using AppendFileStream stream = new(FilePath, new AppendFileOptions
        {
            Durability = AppendDurability.PageCache,
            RollLength = 10_000,
            RetainedFileCount = 2,
            ReuseOldFiles = reuses,
            Content = FileContent.Text,
        });
        for (int i = 0; i < 10; i++)
        {
            WriteLines(stream, 490);
            stream.Flush(durable: i % 2 == 0);
        }

        stream.Flush(durable: true);
        Assert.Equal(0, syncs);
    }

    /// <summary>
    /// A link that leads nowhere took the file's name between the two renamings of a roll, or before them. No look found a file
    /// of the name, no renaming could take it, and the stream ended with "File exists".
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Roll_LinkThatLeadsNowhereHasTheName_IsKeptAndTheRollIsDone(bool isBeforeTheRoll)
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "Links need rights there.");
        bool isMade = isBeforeTheRoll;
        _disk.Before = (call, name) =>
        {
            if (call != DiskCall.Renamed || !name.Contains(".roll-0", StringComparison.Ordinal) || isMade)
                return;
            isMade = true;
            File.CreateSymbolicLink(FilePath, "nowhere");
        };
        ConcurrentQueue<Exception> errors = [];
        using (AppendFileStream stream = new(FilePath, new AppendFileOptions { RollLength = 10_000, OnError = errors.Enqueue }))
        {
            stream.Write(new byte[9_000]);
            stream.Flush();
            if (isBeforeTheRoll)
            {
                File.Delete(FilePath);
                File.CreateSymbolicLink(FilePath, "nowhere");
            }

            stream.Write(new byte[5_000]);
        }

        Assert.True(isMade);
        Assert.Empty(errors);
        Assert.Equal(5_000, new FileInfo(FilePath).Length);
        Assert.Single(Directory.EnumerateFileSystemEntries(_temp.StorePath), path => new FileInfo(path).LinkTarget == "nowhere");
    }

    private static void WriteLines(AppendFileStream stream, int count)
    {
        for (int i = 0; i < count; i++)
            stream.Write(LineMaker.Line(0, i));
    }

    private IEnumerable<string> RolledFiles() =>
        Directory.EnumerateFiles(_temp.StorePath, "app.roll-0*.log").Order(StringComparer.Ordinal);
}
