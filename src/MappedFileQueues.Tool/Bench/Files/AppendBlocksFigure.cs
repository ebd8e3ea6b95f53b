using MappedFileQueues.Tool.Bench.Measuring;
using MappedFileQueues.Tool.Bench.Processes;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Tool.Bench.Files;

/// <summary>Writes a file in blocks of 4 KiB.</summary>
internal sealed class AppendBlocksFigure(ChildContext context)
{
    private const int BlockLength = 4096;

    private readonly byte[] _block = new byte[BlockLength];

    public IReadOnlyList<Samples> Measure() =>
        [Interleaved.Run("append_4k_first", "ms", context.Repetitions, Write, Write)];

    private double Write()
    {
        string path = context.Path("blocks");
        long start = Clock.Now;
        using (SafeFileHandle file = File.OpenHandle(path, FileMode.Create, FileAccess.Write))
        {
            for (long position = 0; position < context.Bytes; position += BlockLength)
                RandomAccess.Write(file, _block, position);
        }

        double milliseconds = Clock.MillisecondsSince(start);
        File.Delete(path);
        return milliseconds;
    }
}
