using MappedFileQueues.Files;
using MappedFileQueues.Hosting;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Tests.Hosting;

/// <summary>`Thread.Interrupt` on threads that log.</summary>
[Trait("Category", "Slow")]
public sealed class LogInterruptTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// A line that waited for room lost its message when its thread was interrupted: it said that the entry could not be
    /// formatted, and the thread never heard of the interrupt.
    /// </summary>
    [Fact]
    public void Log_ThreadsAreInterrupted_EveryLineComesAndTheInterruptCountsLater()
    {
        string path = Path.Combine(_temp.Root, "app.log");
        MappedFileLoggerOptions options = new() { Path = path, File = new AppendFileOptions { BufferLength = 8192 } };
        long logged = 1;
        using (MappedFileLoggerProvider provider = new(options))
        {
            ILogger logger = provider.CreateLogger("C");
            // What is made once is made before: threads wait for each other there, too.
            logger.LogInformation("line {Thread} {Number}", -1, -1);
            InterruptedThreads.Run((thread, number) =>
            {
                for (int i = 0; i < 100; i++)
                {
                    logger.LogInformation("line {Thread} {Number}", thread, number);
                    Interlocked.Increment(ref logged);
                }

                Thread.Sleep(0);
            });
            Assert.Equal(0, provider.LostLineCount);
        }

        string[] lines = File.ReadAllLines(path);
        Assert.DoesNotContain(lines, line => line.Contains("could not be formatted", StringComparison.Ordinal));
        Assert.Equal(logged, lines.Length);
    }

    /// <summary>
    /// At Group a line counted as written when its thread was interrupted, also when it still waited for room. It was lost, and
    /// nobody counted it.
    /// </summary>
    [Fact]
    public void Log_ThreadsAreInterruptedAtGroup_NoLineIsLostWithoutBeingCounted()
    {
        string path = Path.Combine(_temp.Root, "app.log");
        MappedFileLoggerOptions options = new()
        {
            Path = path,
            File = new AppendFileOptions { BufferLength = 8192, Durability = AppendDurability.Group },
        };
        // Longer than a half of the buffer, so that lines wait for each other.
        string text = new('x', 6000);
        long logged = 0;
        using (MappedFileLoggerProvider provider = new(options))
        {
            ILogger logger = provider.CreateLogger("C");
            InterruptedThreads.Run((thread, number) =>
            {
                logger.LogInformation("line {Thread} {Number} {Text}", thread, number, text);
                Interlocked.Increment(ref logged);
                Thread.Sleep(0);
            });
            Assert.Equal(0, provider.LostLineCount);
        }

        Assert.Equal(logged, File.ReadAllLines(path).Length);
    }

    /// <summary>
    /// The disk refused the line, and the thread was interrupted while it waited to give the file up. It counted as written.
    /// </summary>
    [Fact]
    public void Log_ThreadIsInterruptedAfterTheDiskFailed_LineIsWrittenOrCounted()
    {
        FaultyDisk disk = new();
        string path = Path.Combine(_temp.Root, "app.log");
        MappedFileLoggerOptions options = new()
        {
            Path = path,
            File = new AppendFileOptions { Durability = AppendDurability.Group },
            OnError = static _ => { },
        };
        using MappedFileLoggerProvider provider = new(options);
        ILogger logger = provider.CreateLogger("C");
        logger.LogInformation("made before");
        options.Path = Path.Combine(_temp.Root, "other.log");
        Thread changing = new(() => provider.File.TryChange(LogFileSettings.Of(options), out _));
        Thread logging = new(() => logger.LogInformation("line"));
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Write && Thread.CurrentThread == logging)
            {
                // The other thread has the lock, and closes the file, from here on.
                changing.Start();
                Eventually.True(() => provider.CurrentPath is null, "the other thread closes the file");
                Thread.CurrentThread.Interrupt();
                throw FaultyDisk.Broken(name);
            }

            if (call == DiskCall.Open && Thread.CurrentThread == changing)
            {
                Eventually.True(
                    () => (logging.ThreadState & (ThreadState.WaitSleepJoin | ThreadState.Stopped)) != 0,
                    "the thread waits for the lock, or has ended");
            }
        };
        logging.Start();
        logging.Join();
        changing.Join();
        provider.Dispose();

        Assert.Equal(1, provider.LostLineCount + File.ReadAllLines(options.Path).Length);
    }
}
