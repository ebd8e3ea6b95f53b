using System.Collections.Concurrent;
using MappedFileQueues.Files;

namespace MappedFileQueues.Tests.Files.Appending;

/// <summary>
/// `Thread.Interrupt` on one thread that wrote ended the stream for all of them, with lines in it that were never written, tore
/// a long line, or left the stream so that every other call and Dispose waited for ever.
/// </summary>
public sealed class AppendFileInterruptTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(4_000)]
    [InlineData(200_000)]
    public void Write_ThreadsAreInterrupted_NoLineIsLostOrTorn(int length)
    {
        string path = _temp.PathOf("app.log");
        ConcurrentQueue<string> written = [];
        AppendFileStream stream = new(path, new AppendFileOptions { BufferLength = 64 * 1024 });
        InterruptedThreads.Run((thread, number) =>
        {
            string name = $"{thread} {number} ";
            stream.Write(System.Text.Encoding.ASCII.GetBytes(name.PadRight(length, (char)('a' + thread)) + "\n"));
            written.Enqueue(name);
            if (number % 20 == 0)
                stream.Flush();
        });
        // It is interrupted at whatever it waits for first.
        Thread closer = new(stream.Dispose) { IsBackground = true };
        closer.Start();
        closer.Interrupt();
        Assert.True(closer.Join(Eventually.DefaultDeadline));

        HashSet<string> found = [];
        foreach (string line in File.ReadLines(path))
        {
            int end = line.LastIndexOf(' ') + 1;
            Assert.Equal(length, line.Length);
            Assert.Equal(-1, line.AsSpan(end).IndexOfAnyExcept(line[end]));
            found.Add(line[..end]);
        }

        Assert.Empty(written.Except(found));
    }

    /// <summary>The second interrupt ended the wait for the stream's thread, and nobody could open the file any more.</summary>
    [Fact]
    public void Dispose_IsInterruptedAgainAndAgain_ClosesTheFile()
    {
        string path = _temp.PathOf("app.log");
        Exception? failure = null;
        for (int round = 0; round < 300 && failure is null; round++)
        {
            AppendFileStream stream = new(path);
            stream.Write("line\n"u8);
            Thread closer = new(() => failure = Record.Exception(stream.Dispose)) { IsBackground = true };
            closer.Start();
            while (closer.IsAlive)
                closer.Interrupt();
        }

        Assert.Null(failure);
    }

    /// <summary>The file that was being prepared for the next roll stayed, and the interrupt was lost.</summary>
    [Fact]
    public void Dispose_IsInterruptedWhileTheNextFileIsMade_RemovesItAndKeepsTheInterrupt()
    {
        FaultyDisk disk = new();
        using ManualResetEventSlim isMaking = new();
        using ManualResetEventSlim mayMake = new();
        disk.Before = (call, name) =>
        {
            if (call != DiskCall.Open || name != "app.roll-next.log")
                return;
            isMaking.Set();
            mayMake.Wait();
        };
        AppendFileStream stream = new(_temp.PathOf("app.log"), new AppendFileOptions
        {
            RollLength = 65536,
            Content = FileContent.Text,
            Preallocation = FilePreallocation.WrittenZeros,
        });
        stream.Write(Enumerable.Repeat((byte)'x', 40_000).ToArray());
        stream.Flush();
        Assert.True(isMaking.Wait(Eventually.DefaultDeadline), "the next file is made");
        bool isInterrupted = false;
        Thread closer = new(() =>
        {
            stream.Dispose();
            try
            {
                Thread.Sleep(0);
            }
            catch (ThreadInterruptedException)
            {
                isInterrupted = true;
            }
        })
        {
            IsBackground = true,
        };
        closer.Start();
        closer.Interrupt();
        Assert.False(closer.Join(200), "it waits for the file");
        mayMake.Set();
        Assert.True(closer.Join(Eventually.DefaultDeadline));

        Assert.True(isInterrupted);
        Assert.Equal(
            [_temp.PathOf("app.log")],
            Directory.GetFiles(_temp.StorePath).Where(path => path.EndsWith(".log", StringComparison.Ordinal)));
    }
}
