using System.Collections.Concurrent;
using System.Globalization;
using MappedFileQueues.Files;
using MappedFileQueues.Hosting;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Files;
using MappedFileQueues.Tests.Platform;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Tests.Hosting;

/// <summary>What a log cannot do around its file (roll it, delete old ones) is reported, and costs no line.</summary>
public sealed class LogTroubleTests : IDisposable
{
    private const int LineCount = 1500;

    private readonly TempStore _temp = new(createStoreFolder: true);
    private readonly ManualTime _time = new();
    private readonly ConcurrentQueue<Exception> _errors = [];

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// A container's log file was mounted from outside (`docker -v host.log:/app/app.log`), so that it could not be renamed:
    /// EBUSY. Of 1,500 lines, 1,324 were dropped after the first roll.
    /// </summary>
    [Fact]
    public void Roll_FileIsABindMount_ContinuesSaysSoOnceAndRollsLater()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && Environment.IsPrivilegedProcess, "Mounting needs root.");
        File.WriteAllText(FilePath, "");
        MountedFileSystem.Run("mount", "--bind", FilePath, FilePath);
        bool isMounted = true;
        try
        {
            using MappedFileLoggerProvider provider = new(Options(new AppendFileOptions
            {
                RollLength = 10_000,
                BufferLength = 8192,
                RetainedFileCount = 100,
            }));
            ILogger logger = provider.CreateLogger("C");
            LogLines(logger, 0, LineCount);
            provider.Flush();
            Assert.Equal(0, provider.LostLineCount);
            Assert.Equal(Numbers(0, LineCount), NumbersIn(FilePath));
            Eventually.True(() => !_errors.IsEmpty, "the error is reported");
            Assert.Equal(16, Assert.IsType<QueueDiskException>(Assert.Single(_errors)).Errno);

            MountedFileSystem.Run("umount", "-l", FilePath);
            isMounted = false;
            _time.Advance(TimeSpan.FromMinutes(2));
            Eventually.True(() => File.Exists(_temp.PathOf("app.roll-000001.log")), "the file is rolled");
            LogLines(logger, LineCount, 10);
            provider.Flush();
            Assert.Equal(0, provider.LostLineCount);
        }
        finally
        {
            if (isMounted)
                MountedFileSystem.Run("umount", "-l", FilePath);
        }

        Assert.Equal(Numbers(0, LineCount), NumbersIn(_temp.PathOf("app.roll-000001.log")));
        Assert.Equal(Numbers(LineCount, 10), NumbersIn(FilePath));
        Assert.Single(_errors);
    }

    /// <summary>
    /// `rm -rf logs; mkdir logs` beside a running application: it wrote into the removed file until the disk was full, counted no
    /// line as lost, rolled never again and never came back.
    /// </summary>
    [Theory]
    [InlineData("flush")]
    [InlineData("tick")]
    [InlineData("group")]
    public void Write_FolderWasRemoved_SaysSoOnceAndBothAreMadeAgain(string noticedBy)
    {
        PlatformScope.Use(portable: false);
        using MappedFileLoggerProvider provider = new(Options(new AppendFileOptions
        {
            RollLength = 100_000,
            RetainedFileCount = 3,
            Durability = noticedBy == "group" ? AppendDurability.Group : AppendDurability.Interval,
        }));
        ILogger logger = provider.CreateLogger("C");
        LogLines(logger, 0, 10);
        provider.Flush();
        Directory.Delete(_temp.StorePath, recursive: true);
        Directory.CreateDirectory(_temp.StorePath);

        Eventually.True(
            () =>
            {
                LogLines(logger, 10, 1);
                if (noticedBy == "flush")
                    provider.Flush();
                else if (noticedBy == "tick")
                    _time.Advance(TimeSpan.FromSeconds(1));
                return !_errors.IsEmpty;
            },
            "the error is reported");
        Assert.Equal(DiskErrors.ENOENT, Assert.IsType<AppendFileException>(Assert.Single(_errors)).Errno);
        LogLines(logger, 11, 1);
        Assert.InRange(provider.LostLineCount, 1, 10);
        _time.Advance(TimeSpan.FromSeconds(5));
        LogLines(logger, 100, 10);
        provider.Flush();
        Assert.Equal(Numbers(100, 10), NumbersIn(FilePath));
        Assert.Single(_errors);
    }

    /// <summary>
    /// One closed file could not be deleted (another user's in a folder with the sticky bit, an immutable one, a folder of that
    /// name): retention ended, and with it the log, which lost 2,480 of 4,000 lines.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Retain_ClosedFileCannotBeDeleted_IsReportedOnceAndTheOthersGo(bool reuses)
    {
        MakeUndeletable("app.roll-000001.log");
        using (MappedFileLoggerProvider provider = new(Options(new AppendFileOptions
        {
            RollLength = 10_000,
            BufferLength = 8192,
            RetainedFileCount = 3,
            ReuseOldFiles = reuses,
        })))
        {
            LogLines(provider.CreateLogger("C"), 0, LineCount);
            provider.Flush();
            Assert.Equal(0, provider.LostLineCount);
        }

        string[] closed = [.. Directory.GetFiles(_temp.StorePath, "app.roll-0*.log").Order(StringComparer.Ordinal)];
        Assert.Equal(3, closed.Length);
        int[] kept = [.. closed.Append(FilePath).SelectMany(NumbersIn)];
        Assert.Equal(Numbers(LineCount - kept.Length, kept.Length), kept);
        Eventually.True(() => !_errors.IsEmpty, "the error is reported");
        Assert.Single(_errors);
    }

    /// <summary>With RetainedAge an application did not even start beside such a file.</summary>
    [Fact]
    public void Open_ExpiredFileCannotBeDeleted_StartsAndDeletesTheOthers()
    {
        MakeUndeletable("app.roll-000001.log");
        string old = _temp.PathOf("app.roll-000002.log");
        File.WriteAllText(old, "old");
        File.SetLastWriteTimeUtc(old, _time.GetUtcNow().UtcDateTime.AddDays(-2));
        using (MappedFileLoggerProvider provider = new(Options(new AppendFileOptions { RetainedAge = TimeSpan.FromDays(1) })))
            LogLines(provider.CreateLogger("C"), 0, 1);

        Assert.False(File.Exists(old));
        Assert.Equal([0], NumbersIn(FilePath));
        Eventually.True(() => !_errors.IsEmpty, "the error is reported");
        Assert.Single(_errors);
    }

    /// <summary>One closed file with a time in the future, left by a wrong clock, kept all younger ones for ever.</summary>
    [Fact]
    public void Open_ClosedFileIsFromTheFuture_TheOthersAreDeletedAllTheSame()
    {
        DateTime now = _time.GetUtcNow().UtcDateTime;
        foreach ((int number, int days) in new[] { (1, 365), (2, -3), (3, -2), (4, 0) })
        {
            string path = _temp.PathOf($"app.roll-00000{number}.log");
            File.WriteAllText(path, "closed");
            File.SetLastWriteTimeUtc(path, now.AddDays(days));
        }

        using (MappedFileLoggerProvider provider = new(Options(new AppendFileOptions { RetainedAge = TimeSpan.FromDays(1) })))
        {
            Assert.Equal(["app.roll-000001.log", "app.roll-000004.log"], ClosedNames());
            _time.Advance(TimeSpan.FromDays(1.1));
            Eventually.True(() => ClosedNames() is ["app.roll-000001.log"], "the fourth one is deleted when its time has come");
        }

        Assert.Empty(_errors);
    }

    private string[] ClosedNames() => [.. Directory.GetFiles(_temp.StorePath, "app.roll-0*").Select(Path.GetFileName)
        .OfType<string>().Order(StringComparer.Ordinal)];

    private void MakeUndeletable(string name) => Directory.CreateDirectory(_temp.PathOf(name, "folder"));

    private static IEnumerable<int> Numbers(int first, int count) => Enumerable.Range(first, count);

    private static void LogLines(ILogger logger, int first, int count)
    {
        for (int i = first; i < first + count; i++)
            logger.LogInformation("{Number}", i);
    }

    private static IEnumerable<int> NumbersIn(string path) =>
        File.ReadAllLines(path).Select(line => int.Parse(line[(line.LastIndexOf(' ') + 1)..], CultureInfo.InvariantCulture));

    private MappedFileLoggerOptions Options(AppendFileOptions file) => new()
    {
        Path = FilePath,
        TimeProvider = _time,
        OnError = _errors.Enqueue,
        File = file with { TimeProvider = _time, Content = FileContent.Lines },
    };
}
