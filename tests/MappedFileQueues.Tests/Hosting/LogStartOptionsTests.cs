using MappedFileQueues.Files;
using MappedFileQueues.Hosting;
using MappedFileQueues.Tests.Files;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Tests.Hosting;

/// <summary>
/// `Append = false` begins a log with an empty file. It was applied at each opening inside: a reload that changed the flush
/// interval emptied the log, so did the return after an error, and so did the return to a file that another process had written.
/// </summary>
public sealed class LogStartOptionsTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);
    private readonly ManualTime _time = new();
    private readonly FaultyDisk _disk = new();

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Reload_AnotherOptionChanges_KeepsWhatWasLogged()
    {
        File.WriteAllText(FilePath, "of an earlier run\n");
        using (MappedFileLoggerProvider provider = new(Options()))
        {
            ILogger logger = provider.CreateLogger("C");
            logger.LogInformation("1");
            MappedFileLoggerOptions changed = Options();
            changed.File = changed.File with { FlushInterval = TimeSpan.FromSeconds(2) };
            Assert.Null(provider.File.TryChange(LogFileSettings.Of(changed), out _));
            logger.LogInformation("2");

            // A new path is another file, which begins empty; the return to the former one does not.
            File.WriteAllText(_temp.PathOf("other.log"), "of an earlier run\n");
            changed.Path = _temp.PathOf("other.log");
            Assert.Null(provider.File.TryChange(LogFileSettings.Of(changed), out _));
            logger.LogInformation("3");
            Assert.Null(provider.File.TryChange(LogFileSettings.Of(Options()), out _));
            logger.LogInformation("4");
        }

        Assert.Equal(["1", "2", "4"], Messages("app.log"));
        Assert.Equal(["3"], Messages("other.log"));
    }

    [Fact]
    public void Log_FileIsOpenedAgainAfterAnError_KeepsWhatWasLogged()
    {
        using (MappedFileLoggerProvider provider = new(Options()))
        {
            ILogger logger = provider.CreateLogger("C");
            logger.LogInformation("1");
            provider.Flush();
            _disk.Before = (call, name) =>
            {
                if (call == DiskCall.Write)
                    throw FaultyDisk.Broken(name);
            };
            logger.LogInformation("lost");
            provider.Flush();
            _disk.Before = null;
            _time.Advance(TimeSpan.FromSeconds(5));
            logger.LogInformation("2");
        }

        Assert.Equal(["1", "2"], Messages("app.log"));
    }

    [Fact]
    public void Return_AnotherProcessHasWrittenTheFile_KeepsItsLines()
    {
        File.WriteAllText(_temp.PathOf("app.2.log"), "[x] of a process that has ended\n");
        using ChildProcess other = ChildProcess.StartPeer("append", FilePath, "None", "0", "0");
        Eventually.True(() => other.Lines.Count > 0, "the other process has written");
        using (MappedFileLoggerProvider provider = new(Options()))
        {
            provider.CreateLogger("C").LogInformation("beside");
            Assert.Equal(_temp.PathOf("app.2.log"), provider.CurrentPath);
            other.KillAndWait();
            long length = new FileInfo(FilePath).Length;
            _time.Advance(TimeSpan.FromSeconds(5));
            Assert.Equal(FilePath, provider.CurrentPath);
            provider.CreateLogger("C").LogInformation("back");
            provider.Flush();
            Assert.True(new FileInfo(FilePath).Length > length);
        }

        Assert.Equal(["of a process that has ended", "beside"], Messages("app.2.log"));
    }

    private MappedFileLoggerOptions Options() => new()
    {
        Path = FilePath,
        TimeProvider = _time,
        OnError = _ => { },
        File = new AppendFileOptions { Append = false },
    };

    private IEnumerable<string> Messages(string name) =>
        File.ReadAllLines(_temp.PathOf(name)).Select(line => line[(line.IndexOf("] ", StringComparison.Ordinal) + 2)..]);
}
