using System.Diagnostics;
using MappedFileQueues.Files;

namespace MappedFileQueues.Tests.Files.Reading;

/// <summary>A file that grows while it is read.</summary>
public sealed class ReadAheadFollowTests
{
    private static readonly TimeSpan s_deadline = Eventually.DefaultDeadline;

    [Theory]
    [InlineData(false, false, false)]
    [InlineData(false, true, false)]
    [InlineData(false, false, true)]
    [InlineData(false, true, true)]
    [InlineData(true, false, false)]
    [InlineData(true, true, false)]
    public async Task Follow_AThreadAppends_EveryByteComesInOrder(bool portable, bool isAsync, bool maps)
    {
        const int Total = 3_000_000;
        byte[] content = FileUnderTest.Bytes(11, Total);
        using FileUnderTest file = new([], portable);
        ReadAheadOptions options = Following();
        options.MapBlocks = maps;
        await using ReadAheadStream stream = new(file.Path, options);
        Task appending = Task.Run(() =>
        {
            System.Random random = new(12);
            for (int done = 0; done < Total;)
            {
                int count = Math.Min(random.Next(1, 20_000), Total - done);
                file.Append(content.AsSpan(done, count));
                done += count;
            }

            // Appended before this call, so it must come.
            stream.StopFollowing();
        });
        byte[] read = new byte[Total + 1];
        int got = 0;
        while (true)
        {
            int count = isAsync ? await stream.ReadAsync(read.AsMemory(got)) : stream.Read(read.AsSpan(got));
            if (count == 0)
                break;
            got += count;
        }

        await appending;
        Assert.Equal(Total, got);
        Assert.True(read.AsSpan(0, got).SequenceEqual(content));
    }

    [Fact]
    public void Follow_AProcessAppendsLines_TheyComeAsTheyAreWritten()
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "The appending process is a shell.");
        using FileUnderTest file = new("first\n"u8);
        using MappedFileLines lines = MappedFileLines.Open(file.Path, new MappedFileLinesOptions { Follow = true });
        const string Append = "while read -r line; do printf %s \"$line\" >> \"$0\"; printf '\\n' >> \"$0\"; done";
        using ChildProcess child = ChildProcess.Start(new ProcessStartInfo("bash", ["-c", Append, file.Path]));
        Assert.True(lines.TryRead(out ReadOnlySpan<byte> line));
        Assert.True(line.SequenceEqual("first"u8));
        for (int i = 0; i < 50; i++)
        {
            child.Input.WriteLine($"line {i}");
            child.Input.Flush();
            Assert.True(lines.TryRead(out line));
            Assert.Equal($"line {i}", System.Text.Encoding.UTF8.GetString(line));
        }

        child.Input.Close();
        child.ExpectExit();
        lines.StopFollowing();
        Assert.False(lines.TryRead(out _));
        Assert.Equal(lines.Length, lines.Position);
    }

    [Fact]
    public async Task Follow_Cancelled_EndsAtOnceAndLosesNothing()
    {
        using FileUnderTest file = new("abc"u8);
        await using ReadAheadStream stream = new(file.Path, Following());
        byte[] buffer = new byte[10];
        Assert.Equal(3, stream.Read(buffer));
        for (byte i = 0; i < 20; i++)
        {
            using CancellationTokenSource source = new();
            Task<int> pending = stream.ReadAsync(buffer, source.Token).AsTask();
            Assert.False(pending.IsCompleted);
            await source.CancelAsync();
            await Assert.ThrowsAnyAsync<OperationCanceledException>(() => pending);

            using CancellationTokenSource second = new();
            Task<int> blocked = Task.Run(() => stream.Read(buffer, second.Token));
            second.CancelAfter(TimeSpan.FromMilliseconds(2));
            await Assert.ThrowsAnyAsync<OperationCanceledException>(() => blocked);

            file.Append([i]);
            Assert.Equal(1, await stream.ReadAsync(buffer));
            Assert.Equal(i, buffer[0]);
        }
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Follow_DisposedWhileARequestWaits_TheRequestEnds(bool isAsync)
    {
        using FileUnderTest file = new("abc"u8);
        ReadAheadStream stream = new(file.Path, Following());
        byte[] buffer = new byte[10];
        Assert.Equal(3, stream.Read(buffer));
        using ManualResetEventSlim begins = new();
        Task<int> pending = isAsync ? stream.ReadAsync(buffer).AsTask() : Task.Run(() =>
        {
            begins.Set();
            return stream.Read(buffer);
        });
        if (!isAsync)
            begins.Wait();
        stream.Dispose();
        await Assert.ThrowsAsync<ObjectDisposedException>(() => pending.WaitAsync(s_deadline));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Follow_TruncatedWhileWaiting_IsATypedErrorAndASeekGoesOn(bool portable)
    {
        using FileUnderTest file = new("a line\nanother\n"u8, portable);
        await using ReadAheadStream stream = new(file.Path, Following());
        byte[] buffer = new byte[100];
        Assert.Equal(15, stream.Read(buffer));
        Task<int> pending = stream.ReadAsync(buffer).AsTask();
        file.SetLength(0);
        FileTruncatedException error = await Assert.ThrowsAsync<FileTruncatedException>(() => pending.WaitAsync(s_deadline));
        Assert.Equal((15, 0), (error.LengthBefore, error.LengthNow));

        // As a log file that is copied and truncated: read on from its beginning.
        stream.Position = 0;
        pending = stream.ReadAsync(buffer).AsTask();
        file.Append("new\n"u8);
        Assert.Equal(4, await pending.WaitAsync(s_deadline));
    }

    /// <summary>A refused seek had changed the place already.</summary>
    [Fact]
    public async Task Seek_WhileARequestWaits_IsRefusedAndThePlaceStays()
    {
        using FileUnderTest file = new("abc"u8);
        await using ReadAheadStream stream = new(file.Path, Following());
        Assert.Equal(3, stream.Read(new byte[10]));
        Task<int> pending = stream.ReadAsync(new byte[10]).AsTask();
        Assert.Throws<InvalidOperationException>(() => stream.Position = 1);
        Assert.Throws<InvalidOperationException>(() => stream.Seek(1, SeekOrigin.Begin));
        Assert.Equal(3, stream.Position);

        stream.StopFollowing();
        Assert.Equal(0, await pending.WaitAsync(s_deadline));
        Assert.Equal(3, stream.Position);
    }

    [Fact]
    public async Task StopFollowing_WhileARequestWaits_EndsIt()
    {
        using FileUnderTest file = new([]);
        await using ReadAheadStream stream = new(file.Path, Following());
        Task<int> pending = stream.ReadAsync(new byte[1]).AsTask();
        stream.StopFollowing();
        Assert.Equal(0, await pending.WaitAsync(s_deadline));
    }

    private static ReadAheadOptions Following() => new()
    {
        Follow = true,
        BlockSize = 65536,
        FollowInterval = TimeSpan.FromMilliseconds(5),
    };
}
