using System.Runtime.Versioning;
using MappedFileQueues.Files;
using MappedFileQueues.Hosting;
using MappedFileQueues.Tests.Files;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Tests.Hosting;

/// <summary>
/// While one version of a service replaces another, both run for a while. The log of the new one was an exception at start: the
/// deployment failed for it.
/// </summary>
public sealed class LogFileInUseTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);
    private readonly ManualTime _time = new();
    private readonly List<Exception> _errors = [];

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Open_FileIsHeld_WritesBesideItAndReturns()
    {
        AppendFileStream holder = new(FilePath);
        using (MappedFileLoggerProvider provider = Open())
        {
            ILogger logger = provider.CreateLogger("C");
            logger.LogInformation("beside");
            Assert.Equal(_temp.PathOf("app.2.log"), provider.CurrentPath);
            Assert.IsType<QueueInUseException>(Assert.Single(_errors));

            _time.Advance(TimeSpan.FromSeconds(5));
            logger.LogInformation("beside still");
            holder.Dispose();
            _time.Advance(TimeSpan.FromSeconds(4));
            Assert.Equal(_temp.PathOf("app.2.log"), provider.CurrentPath);
            _time.Advance(TimeSpan.FromSeconds(1));
            Assert.Equal(FilePath, provider.CurrentPath);
            logger.LogInformation("back");
        }

        Assert.Equal(["beside", "beside still"], Messages("app.2.log"));
        Assert.Equal(["back"], Messages("app.log"));
        Assert.Single(_errors);
    }

    /// <summary>A third process takes the next number, and each returns when the file is free.</summary>
    [Fact]
    public void Open_FilesBesideAreHeldToo_TakesTheNextNumber()
    {
        AppendFileStream holder = new(FilePath);
        using (MappedFileLoggerProvider second = Open())
        using (MappedFileLoggerProvider third = Open())
        {
            Assert.Equal(_temp.PathOf("app.2.log"), second.CurrentPath);
            Assert.Equal(_temp.PathOf("app.3.log"), third.CurrentPath);
            holder.Dispose();
            _time.Advance(TimeSpan.FromSeconds(5));

            Assert.Equal(FilePath, second.CurrentPath);
            Assert.Equal(_temp.PathOf("app.3.log"), third.CurrentPath);
            second.Dispose();
            _time.Advance(TimeSpan.FromSeconds(5));
            Assert.Equal(FilePath, third.CurrentPath);
            third.CreateLogger("C").LogInformation("third");
        }

        Assert.Equal(["third"], Messages("app.log"));
    }

    /// <summary>
    /// The next name beside the file was a directory, or another user's file: the application did not start, although the number
    /// after it was free.
    /// </summary>
    [Fact]
    public void Open_FileBesideCannotBeOpened_TakesTheNextNumber()
    {
        using AppendFileStream holder = new(FilePath);
        Directory.CreateDirectory(_temp.PathOf("app.2.log"));

        using MappedFileLoggerProvider provider = Open();

        Assert.Equal(_temp.PathOf("app.3.log"), provider.CurrentPath);
    }

    /// <summary>The clock gave no timer for the return: the file beside stayed open, and held, for the process's life.</summary>
    [Fact]
    public void Open_FileIsHeldAndTheClockGivesNoTimer_LeavesNoFileOpen()
    {
        using AppendFileStream holder = new(FilePath);
        MappedFileLoggerOptions options = new() { Path = FilePath, TimeProvider = new ClockWithoutTimers() };

        Assert.Throws<NotSupportedException>(() => new MappedFileLoggerProvider(options));

        new AppendFileStream(_temp.PathOf("app.2.log")).Dispose();
    }

    /// <summary>Threads log all the while: what one of them wrote to one file and the next is all there, in its order.</summary>
    [Fact]
    public async Task Log_WhileTheFileChanges_NoLineIsLost()
    {
        const int ThreadCount = 3;
        using CancellationTokenSource stop = new(TimeSpan.FromSeconds(30));
        int[] counts = new int[ThreadCount];
        using (MappedFileLoggerProvider provider = Open())
        {
            ILogger logger = provider.CreateLogger("C");
            Task[] writers = [.. Enumerable.Range(0, ThreadCount).Select(thread => Task.Factory.StartNew(
                () =>
                {
                    while (!stop.IsCancellationRequested)
                        logger.LogInformation("{Thread} {Number}", thread, counts[thread]++);
                },
                TaskCreationOptions.LongRunning))];
            for (int round = 0; round < 10; round++)
            {
                Assert.Null(provider.File.TryChange(Settings($"other{round % 2}.log"), out _));
                int seen = Volatile.Read(ref counts[0]);
                Eventually.True(() => Volatile.Read(ref counts[0]) > seen, "another line is logged");
            }

            stop.Cancel();
            await Task.WhenAll(writers);
            Assert.Equal(0, provider.LostLineCount);
        }

        string[] all = [.. Messages("other0.log"), .. Messages("other1.log"), .. Messages("app.log")];
        Assert.Equal(
            counts.SelectMany((count, thread) => Enumerable.Range(0, count).Select(number => $"{thread} {number}")).Order(),
            all.Order());
        Assert.Empty(_errors);
    }

    /// <summary>All names are held: lines are dropped and counted, as after a full disk, until one is free.</summary>
    [Fact]
    [Trait("Category", "Slow")]
    public void Open_AllFilesAreHeld_StartsAndDropsLines()
    {
        List<AppendFileStream> holders = [new(FilePath)];
        try
        {
            for (int number = 2; number <= 99; number++)
            {
                string path = _temp.PathOf($"app.{number}.log");
                holders.Add(new AppendFileStream(path, new AppendFileOptions { BufferLength = 8192 }));
            }

            using MappedFileLoggerProvider provider = Open();
            Assert.Null(provider.CurrentPath);
            provider.CreateLogger("C").LogInformation("dropped");
            Assert.Equal(1, provider.LostLineCount);

            holders[0].Dispose();
            _time.Advance(TimeSpan.FromSeconds(5));
            provider.CreateLogger("C").LogInformation("written");
            Assert.Equal(FilePath, provider.CurrentPath);
        }
        finally
        {
            holders.ForEach(holder => holder.Dispose());
        }

        Assert.Equal(["written"], Messages("app.log"));
    }

    /// <summary>
    /// Directories that the log made were their maker's alone, whatever the umask: whoever collects logs could not read them.
    /// </summary>
    [Fact]
    [SupportedOSPlatform("linux")]
    public void Open_DirectoryIsMissing_IsMadeAsTheUmaskSays()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The umask is one of Unix.");
        string umask = File.ReadLines("/proc/self/status").First(line => line.StartsWith("Umask:", StringComparison.Ordinal));
        UnixFileMode expected = (UnixFileMode)(0x1FF & ~Convert.ToInt32(umask[6..].Trim(), 8));
        new MappedFileLoggerProvider(new MappedFileLoggerOptions { Path = _temp.PathOf("made", "logs", "app.log") }).Dispose();

        Assert.Equal(expected, File.GetUnixFileMode(_temp.PathOf("made")));
        Assert.Equal(expected, File.GetUnixFileMode(_temp.PathOf("made", "logs")));
    }

    private LogFileSettings Settings(string name) => LogFileSettings.Of(new MappedFileLoggerOptions
    {
        Path = _temp.PathOf(name),
        OnError = _errors.Add,
    });

    private MappedFileLoggerProvider Open() => new(new MappedFileLoggerOptions
    {
        Path = FilePath,
        TimeProvider = _time,
        OnError = _errors.Add,
    });

    private IEnumerable<string> Messages(string name) =>
        File.ReadAllLines(_temp.PathOf(name)).Select(line => line[(line.IndexOf("] ", StringComparison.Ordinal) + 2)..]);

    private sealed class ClockWithoutTimers : TimeProvider
    {
        public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period) =>
            throw new NotSupportedException("There are no timers.");
    }
}
