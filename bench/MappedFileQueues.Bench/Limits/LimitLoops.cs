using System.Runtime.InteropServices;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Raw;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Bench.Limits;

/// <summary>Those loops of bench/limits.c that no figure of this program has beside it.</summary>
internal sealed partial class LimitLoops(ChildContext context)
{
    public const string FetchAddRole = "fetch_add_1";
    public const string WakeBackRole = "wake_back_p50";
    public const string FlushRole = "fdatasync_p50";

    private const int PageLength = 4096;
    private const int WarmUpCount = 500;

    private Message64 _message = Message64.Create();

    /// <summary>One process takes each place by fetch-add.</summary>
    public IReadOnlyList<Samples> FetchAdd()
    {
        using (RawFile file = RawFile.Create(context.Path("warm-raw"), RawFile.LengthFor(WarmUpCount), allocates: true))
            WarmUp.UntilCompiled(() => FetchAdd(file, WarmUpCount));
        return [Interleaved.Run(FetchAddRole, "msg/s", context.Repetitions, MeasureFetchAdd, null)];
    }

    /// <summary>4 KiB to new blocks, then fdatasync: the median over the flushes of a repetition.</summary>
    public IReadOnlyList<Samples> Flush() =>
        [Interleaved.Run(FlushRole, "us", context.Repetitions, () => MeasureFlush(Math.Max(context.Messages / 20_000, 5)), null)];

    private double MeasureFetchAdd()
    {
        using RawFile file = RawFile.Create(context.Path("raw"), RawFile.LengthFor(context.Messages), allocates: true);
        file.TouchForWriting();
        long start = Clock.Now;
        FetchAdd(file, context.Messages);
        return 1e9 / Clock.NanosecondsEach(start, context.Messages);
    }

    private unsafe void FetchAdd(RawFile file, long count)
    {
        // On a cache line of its own: this object's other fields are written in the loop as well.
        long* tail = stackalloc long[32];
        RawLoops.FetchAdd(file.Start, ref tail[16], ref _message, count);
    }

    private double MeasureFlush(long count)
    {
        string path = context.Path("flush");
        byte[] block = new byte[PageLength];
        block[0] = 1;
        long[] took = new long[count];
        using (SafeFileHandle file = File.OpenHandle(
            path, FileMode.CreateNew, FileAccess.ReadWrite, FileShare.None, FileOptions.None, count * PageLength))
        {
            RandomAccess.SetLength(file, count * PageLength);
            FlushData(file);
            for (int i = 0; i < count; i++)
            {
                long start = Clock.Now;
                RandomAccess.Write(file, block, (long)i * PageLength);
                FlushData(file);
                took[i] = Clock.Now - start;
            }
        }

        File.Delete(path);
        return Clock.Nanoseconds(Quantiles.Of(took, 0.5)) / 1000;
    }

    private static void FlushData(SafeFileHandle file)
    {
        if (!OperatingSystem.IsLinux())
            RandomAccess.FlushToDisk(file);
        else if (FlushDataOnLinux(file) != 0)
            throw new ToolException($"A flush failed: errno={Marshal.GetLastPInvokeError()}.");
    }

    [LibraryImport("libc", EntryPoint = "fdatasync", SetLastError = true)]
    private static partial int FlushDataOnLinux(SafeFileHandle file);
}
