using MappedFileQueues.Hosting;
using MappedFileQueues.Tests.Files;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Tests.Hosting;

/// <summary>What a handler of errors does must not stop the log, and must not reach the program that logs.</summary>
public sealed class LogFileFaultTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);
    private readonly ManualTime _time = new();
    private readonly FaultyDisk _disk = new();

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// The handler was called under the lock that a logging thread takes to open the file again. One that waited for such a
    /// thread waited for ever.
    /// </summary>
    [Fact]
    public void OnError_WaitsForAnotherThreadThatLogs_ItGetsThere()
    {
        MappedFileLoggerProvider? provider = null;
        List<bool> ended = [];
        using (provider = Open(TimeSpan.FromSeconds(5), _ =>
        {
            Thread other = new(() => provider!.CreateLogger("C").LogInformation("from another thread")) { IsBackground = true };
            other.Start();
            ended.Add(other.Join(Eventually.DefaultDeadline));
        }))
        {
            Fail(provider);
            provider.CreateLogger("C").LogInformation("too early");
            Assert.Single(ended);
            _time.Advance(TimeSpan.FromSeconds(5));
            provider.CreateLogger("C").LogInformation("the file cannot be opened");

            Assert.Equal([true, true], ended);
            _disk.Before = null;
        }
    }

    /// <summary>
    /// Without a retry interval the line that the handler logged opened the file again, which failed, which called the handler,
    /// until the stack was full.
    /// </summary>
    [Fact]
    public void OnError_Logs_IsNotCalledForItsOwnLine()
    {
        MappedFileLoggerProvider? provider = null;
        int depth = 0;
        int depthMax = 0;
        int calls = 0;
        using (provider = Open(TimeSpan.Zero, _ =>
        {
            calls++;
            depthMax = Math.Max(depthMax, ++depth);
            if (depth < 20)
                provider!.CreateLogger("C").LogInformation("from the handler");
            depth--;
        }))
        {
            Fail(provider);
            provider.CreateLogger("C").LogInformation("the file cannot be opened");

            Assert.Equal(1, depthMax);
            Assert.Equal(2, calls);
            Assert.Equal(3, provider.LostLineCount);
            _disk.Before = null;
            provider.CreateLogger("C").LogInformation("behind");
        }

        Assert.Contains("behind", File.ReadAllText(FilePath), StringComparison.Ordinal);
    }

    /// <summary>The handler's exception skipped the closing: the file stayed in use, and the log was dead.</summary>
    [Fact]
    public void OnError_Throws_TheLogGoesOnAndTheProgramToo()
    {
        int calls = 0;
        using (MappedFileLoggerProvider provider = Open(TimeSpan.Zero, _ =>
        {
            calls++;
            throw new InvalidOperationException("The handler's own.");
        }))
        {
            ILogger logger = provider.CreateLogger("C");
            Fail(provider);
            logger.LogInformation("the file cannot be opened");
            Assert.Equal(2, calls);
            _disk.Before = null;
            logger.LogInformation("behind");
        }

        Assert.Equal(2, calls);
        Assert.Contains("behind", File.ReadAllText(FilePath), StringComparison.Ordinal);
    }

    /// <summary>The handler may open the file itself, to see what is there, or to write it in another way.</summary>
    [Fact]
    public void OnError_Called_TheFileIsClosedBefore()
    {
        List<Exception?> openings = [];
        using MappedFileLoggerProvider provider = Open(TimeSpan.FromSeconds(5), _ =>
        {
            _disk.Before = null;
            openings.Add(Record.Exception(() => new MappedFileQueues.Files.AppendFileStream(FilePath).Dispose()));
        });
        Fail(provider);

        Assert.Equal([null], openings);
    }

    /// <summary>The file can neither be written nor opened from here on.</summary>
    private void Fail(MappedFileLoggerProvider provider)
    {
        _disk.Before = (call, name) =>
        {
            if (call is DiskCall.Write or DiskCall.Open)
                throw FaultyDisk.Broken(name);
        };
        provider.CreateLogger("C").LogInformation("lost in the buffer");
        provider.Flush();
    }

    private MappedFileLoggerProvider Open(TimeSpan retryInterval, Action<Exception> onError) => new(new MappedFileLoggerOptions
    {
        Path = FilePath,
        TimeProvider = _time,
        RetryInterval = retryInterval,
        OnError = onError,
    });
}
