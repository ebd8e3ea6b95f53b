using System.Diagnostics;
using MappedFileQueues.Files;
using MappedFileQueues.Files.Reading.Blocks;

namespace MappedFileQueues.Tests.Files.Reading;

/// <summary>How often a file is looked at while a call waits at its end.</summary>
public sealed class FollowPauseTests
{
    /// <summary>
    /// Each look woke the call that waits, and the call woke the thread that looks: a reader at the end of a quiet file kept a
    /// core busy.
    /// </summary>
    [Fact]
    public void TryFill_ACallWaitsAtTheEnd_TheFileIsLookedAtSeldom()
    {
        using var file = new EmptyFile();
        var options = new ReadAheadOptions { Follow = true, FollowInterval = TimeSpan.FromMilliseconds(100) };
        var signal = new BlockSignal();
        using var source = new BlockSource(new FileSource(file, null), options, isText: false, typeof(FollowPauseTests));
        var filler = new BlockFiller(signal, source, options, headroom: 0, usesCache: false);
        Thread? thread;
        lock (signal.Gate)
        {
            long began = Stopwatch.GetTimestamp();
            filler.BeginCall();
            while (Stopwatch.GetElapsedTime(began) < TimeSpan.FromMilliseconds(500) || file.LookCount < 2)
            {
                Assert.False(filler.TryTake(out _));
                if (!filler.TryFill(mayWait: true))
                    Monitor.Wait(signal.Gate, TimeSpan.FromMilliseconds(100));
            }

            filler.EndCall();
            thread = filler.End();
        }

        thread?.Join();

        // 1, 2, 4 … 64 ms, then 100 ms each: 11 looks. Each one waked by the one before: tens of thousands.
        Assert.InRange(file.LookCount, 2, 50);
    }

    private sealed class EmptyFile : ReadableFile
    {
        public int LookCount { get; private set; }

        public override string Path => "/quiet.log";

        public override long Length => 0;

        public override int ReadAt(Span<byte> destination, long position)
        {
            LookCount++;
            return 0;
        }

        public override int ReadCachedAt(Span<byte> destination, long position) => 0;

        public override void AdviseSequential()
        {
        }

        public override void Dispose()
        {
        }
    }
}
