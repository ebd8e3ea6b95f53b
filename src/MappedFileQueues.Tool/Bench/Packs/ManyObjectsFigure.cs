using System.Globalization;
using MappedFileQueues.Packs;
using MappedFileQueues.Tool.Bench.Measuring;
using MappedFileQueues.Tool.Bench.Processes;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Tool.Bench.Packs;

/// <summary>
/// Up to 5,000,000 objects of 100 bytes. The memory of the index for each object, beside that of a dictionary from the same
/// keys to a position; and the time until a pack that was closed can answer, beside a bare read of its checkpoint.
/// </summary>
internal sealed class ManyObjectsFigure(ChildContext context)
{
    public const string BytesName = "pack_index_bytes";
    public const string OpenName = "pack_open";

    private const int DataLength = 100;
    private const int CountMax = 5_000_000;
    private const int CountMin = 1000;

    /// <summary>What an object takes on disk, roughly: data, key and needle.</summary>
    private const int NeedleLength = 200;

    private const int BufferLength = 1024 * 1024;

    private string PackPath => context.Path("objects");

    public IReadOnlyList<Samples> Measure()
    {
        int count = (int)Math.Clamp(context.Bytes / NeedleLength, CountMin, CountMax);
        byte[] data = new byte[DataLength];
        double indexBytes;
        using (PackStore pack = PackStore.Open(PackPath))
        {
            for (int number = 0; number < count; number++)
                pack.Put(Key(number), data);
            indexBytes = pack.GetInfo().IndexBytes / (double)count;
        }

        double dictionaryBytes = MeasureDictionary(count);
        Samples bytes = Interleaved.Run(BytesName, "B", context.Repetitions, () => dictionaryBytes, () => indexBytes);
        _ = Open(count);
        _ = ReadCheckpoint();
        Samples open = Interleaved.Run(OpenName, "ms", context.Repetitions, ReadCheckpoint, () => Open(count));
        Directory.Delete(PackPath, recursive: true);
        return [bytes, open];
    }

    private static string Key(int number) => string.Create(CultureInfo.InvariantCulture, $"objects/{number:D8}");

    private static double MeasureDictionary(int count)
    {
        long before = GC.GetTotalMemory(forceFullCollection: true);
        Dictionary<string, long> index = [];
        for (int number = 0; number < count; number++)
            index.Add(Key(number), number);
        double bytes = (GC.GetTotalMemory(forceFullCollection: true) - before) / (double)count;
        GC.KeepAlive(index);
        return bytes;
    }

    private double Open(int count)
    {
        long start = Clock.Now;
        PackStore pack = PackStore.Open(PackPath);
        bool isThere = pack.Contains(Key(count - 1));
        double milliseconds = Clock.MillisecondsSince(start);
        Sums.Check(OpenName, isThere ? (ulong)pack.Count : 0, (ulong)count);
        pack.Dispose();
        return milliseconds;
    }

    private double ReadCheckpoint()
    {
        byte[] buffer = new byte[BufferLength];
        long start = Clock.Now;
        using SafeFileHandle file = File.OpenHandle(Path.Combine(PackPath, "index.checkpoint"));
        long position = 0;
        for (int read; (read = RandomAccess.Read(file, buffer, position)) > 0;)
            position += read;
        return Clock.MillisecondsSince(start);
    }
}
