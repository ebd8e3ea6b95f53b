using System.Text;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Files;

namespace MappedFileQueues.Bench.Files;

/// <summary>
/// Nanoseconds for each line of a text file in the system's cache, lines of 0 to 198 bytes, 100 with their ends on average: <see
/// cref="MappedFileLines"/> beside File.ReadLines. Both add up the lengths.
/// </summary>
internal sealed class ReadLinesFigure(ChildContext context)
{
    public const string Name = "read_lines";

    private const int LengthMax = 198;
    private const int WarmUpLength = 256 * 1024;

    public IReadOnlyList<Samples> Measure()
    {
        string path = context.Path("lines");
        Make(path, WarmUpLength);
        WarmUp.UntilCompiled(() =>
        {
            _ = Time(path, ReadByFramework);
            _ = Time(path, ReadOurs);
        });

        Make(path, context.Bytes);
        _ = Time(path, ReadByFramework);
        Samples samples = Interleaved.Run(
            Name, "ns", context.Repetitions, () => Time(path, ReadByFramework), () => Time(path, ReadOurs));
        File.Delete(path);
        return [samples];
    }

    private static double Time(string path, Func<string, (long Count, long Length)> read)
    {
        long start = Clock.Now;
        (long count, long length) = read(path);
        double nanoseconds = Clock.NanosecondsEach(start, count);

        // Every line has one byte after it.
        Sums.Check(Name, (ulong)(length + count), (ulong)new FileInfo(path).Length);
        return nanoseconds;
    }

    private static (long Count, long Length) ReadByFramework(string path)
    {
        long count = 0;
        long length = 0;
        foreach (string line in File.ReadLines(path))
        {
            count++;
            length += line.Length;
        }

        return (count, length);
    }

    private static (long Count, long Length) ReadOurs(string path)
    {
        long count = 0;
        long length = 0;
        using MappedFileLines lines = MappedFileLines.Open(path);
        foreach (ReadOnlySpan<byte> line in lines)
        {
            count++;
            length += line.Length;
        }

        return (count, length);
    }

    private static void Make(string path, long length)
    {
        Random random = new(2);
        string text = new('x', LengthMax);
        byte[] line = Encoding.ASCII.GetBytes(text + "\n");
        using FileStream file = new(path, FileMode.Create, FileAccess.Write, FileShare.None, bufferSize: 1024 * 1024);
        for (long done = 0; done < length;)
        {
            int count = random.Next(LengthMax + 1) + 1;
            file.Write(line.AsSpan(line.Length - count));
            done += count;
        }
    }
}
