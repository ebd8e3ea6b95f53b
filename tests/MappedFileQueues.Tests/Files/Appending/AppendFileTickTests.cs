using MappedFileQueues.Files;

namespace MappedFileQueues.Tests.Files.Appending;

/// <summary>
/// The flush interval was a timer of the thread pool. In an application whose pool was at its maximum, and all of whose threads
/// waited, it never came: a kill took 20 lines that were minutes old.
/// </summary>
public sealed class AppendFileTickTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void FlushInterval_ThreadPoolIsAtItsMaximum_WhatWasWrittenReachesTheSystem()
    {
        string path = _temp.PathOf("app.log");
        using ChildProcess peer = ChildProcess.StartPeer("full-pool", path);
        Eventually.True(() => File.Exists(path) && new FileInfo(path).Length == 4, "the line is in the file");
    }

    /// <summary>A user's clock threw. A tick looks whether a roll is due; nobody caught that, and the process ended.</summary>
    [Fact]
    public void FlushInterval_ClockThrows_WhatWasWrittenReachesTheSystem()
    {
        string path = _temp.PathOf("app.log");
        BrokenTime time = new();
        using AppendFileStream stream = new(path, new AppendFileOptions
        {
            FlushInterval = TimeSpan.FromMilliseconds(20),
            RollInterval = TimeSpan.FromHours(1),
            TimeProvider = time,
        });
        time.IsBroken = true;
        Eventually.True(() => time.Count > 0, "a tick has looked");
        stream.Write("line"u8);
        Eventually.True(() => new FileInfo(path).Length == 4, "the line is in the file");
    }
}
