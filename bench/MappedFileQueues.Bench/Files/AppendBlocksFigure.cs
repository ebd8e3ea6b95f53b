using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;

namespace MappedFileQueues.Bench.Files;

/// <summary>
/// Nanoseconds for each block of 4 KiB, with the closing, no flush: beside bare pwrite of the same blocks. The first pass makes
/// the file, the second writes one whose blocks were written before.
/// </summary>
internal sealed class AppendBlocksFigure(ChildContext context, FileRoom room)
{
    public const string FirstName = "append_4k_first";
    public const string SecondName = "append_4k_second";

    private const long WarmUpLength = 64 * BlockRun.BlockLength;

    public IReadOnlyList<Samples> Measure()
    {
        WarmUp.UntilCompiled(() =>
        {
            _ = Write(BlockFiles.Bare, WarmUpLength);
            _ = Write(BlockFiles.Ours, WarmUpLength);
        });
        long length = context.Bytes / BlockRun.BlockLength * BlockRun.BlockLength;
        return [Interleaved.Run(
            context.Task.Role, "ns", context.Repetitions,
            () => Write(BlockFiles.Bare, length), () => Write(BlockFiles.Ours, length))];
    }

    private double Write(string way, long length) =>
        BlockRun.WriteChecked(way, context.Path("blocks"), room, length, BlockSync.None);
}
