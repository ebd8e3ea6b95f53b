using System.Diagnostics;
using MappedFileQueues.Files;

namespace MappedFileQueues.Tests.Files.Reading;

/// <summary>Steady reading allocates nothing, in whatever thread: the blocks are used again and again.</summary>
[Trait("Category", "Slow")]
public sealed class ReadAheadAllocationTests
{
    private const int ContentLength = 8 << 20;
    private const int BlockSize = 16384;

#if DEBUG
    // The compiler makes the state machines objects there: three for each block, and their boxes where the pool of the thread
    // that continues has none. 467 bytes a block were seen where each block was waited for.
    private const long BytesMax = 1000L * ContentLength / BlockSize;
#else
    private const long BytesMax = 4096;
#endif

    private readonly byte[] _buffer = new byte[5000];

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Read_SteadyState_AllocatesNothing(bool maps)
    {
        using FileUnderTest file = new(FileUnderTest.Bytes(1, ContentLength));
        using ReadAheadStream stream = new(file.Path, new ReadAheadOptions { BlockSize = BlockSize, MapBlocks = maps });
        AssertNothing(() =>
        {
            if (stream.Read(_buffer) == 0)
                stream.Position = 0;
        });
        AssertNothing(() =>
        {
            if (!stream.TryReadBlock(out _))
                stream.Position = 0;
        });
    }

    [Fact]
    public async Task ReadAsync_SteadyState_AllocatesNextToNothing()
    {
        using FileUnderTest file = new(FileUnderTest.Bytes(1, ContentLength));
        await using ReadAheadStream stream = new(file.Path, new ReadAheadOptions { BlockSize = BlockSize });
        using CancellationTokenSource source = new();

        // Of all threads, since the call continues in another one after each wait; others of this test process allocate too, so
        // the smallest of many runs counts. Outside of the test's own context, which allocates for each wait.
        long least = long.MaxValue;
        long began = Stopwatch.GetTimestamp();
        while (least > BytesMax && Stopwatch.GetElapsedTime(began) < Eventually.DefaultDeadline)
        {
            least = Math.Min(least, await Task.Run(() => AllocatedByReadingAll(stream, source.Token)));
            stream.Position = 0;
            // Another test may allocate for seconds.
            await Task.Delay(20, CancellationToken.None);
        }

        // Some 500 blocks were read in each run.
        Assert.True(least <= BytesMax, $"{least} bytes");
    }

    [Fact]
    public void Lines_SteadyState_AllocateNothing()
    {
        byte[] text = FileUnderTest.Bytes(2, ContentLength);
        for (int i = 0; i < text.Length; i++)
            text[i] = (byte)(text[i] < 3 ? '\n' : 'x');
        using FileUnderTest file = new(text);
        using MappedFileLines lines = MappedFileLines.Open(file.Path, new MappedFileLinesOptions { BlockSize = BlockSize });
        AssertNothing(() => Assert.True(lines.TryRead(out _)), calls: 10_000);
    }

    private async Task<long> AllocatedByReadingAll(ReadAheadStream stream, CancellationToken cancellationToken)
    {
        long before = GC.GetTotalAllocatedBytes(precise: true);
        while (await stream.ReadAsync(_buffer, cancellationToken).ConfigureAwait(false) > 0)
        {
        }

        return GC.GetTotalAllocatedBytes(precise: true) - before;
    }

    /// <summary>In this thread and in the pump's, which lives as long as the stream and allocates its blocks first.</summary>
    private static void AssertNothing(Action call, int calls = 5_000)
    {
        for (int i = 0; i < 1_000; i++)
            call();
        long least = long.MaxValue;
        for (int run = 0; run < 5 && least > 0; run++)
        {
            long before = GC.GetAllocatedBytesForCurrentThread();
            for (int i = 0; i < calls; i++)
                call();
            least = Math.Min(least, GC.GetAllocatedBytesForCurrentThread() - before);
        }

        Assert.Equal(0, least);
    }
}
