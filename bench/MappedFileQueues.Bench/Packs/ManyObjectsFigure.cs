using System.Buffers.Binary;
using System.Globalization;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Packs;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Bench.Packs;

/// <summary>
/// Up to 5,000,000 objects of 100 bytes. The memory of the index for each object, beside that of a dictionary from the same
/// keys to a position; the time until a pack that was closed can answer, beside a bare read of its checkpoint; and the time of a
/// get in random order, in the system's cache, beside a bare positioned read of as much.
/// </summary>
internal sealed class ManyObjectsFigure(ChildContext context)
{
    public const string BytesName = "pack_index_bytes";
    public const string OpenName = "pack_open";
    public const string GetName = "pack_get_many";

    private const int DataLength = 100;
    private const int CountMax = 5_000_000;
    private const int CountMin = 1000;

    /// <summary>What an object takes on disk, roughly: data, key and needle.</summary>
    private const int NeedleLength = 200;

    private const int BufferLength = 1024 * 1024;

    private const int GetCountMax = 500_000;

    /// <summary>What a get reads of such an object: the length of its size class.</summary>
    private const int GetLength = 192;

    private const int WarmUpCount = 50;

    private readonly PackGets _gets = new(GetName, Key);

    private string PackPath => context.Path("objects");

    public IReadOnlyList<Samples> Measure()
    {
        int count = (int)Math.Clamp(context.Bytes / NeedleLength, CountMin, CountMax);
        byte[] data = new byte[DataLength];
        double indexBytes;
        using (PackStore pack = PackStore.Open(PackPath))
        {
            for (int number = 0; number < count; number++)
            {
                BinaryPrimitives.WriteInt32LittleEndian(data, number);
                pack.Put(Key(number), data);
            }

            indexBytes = pack.GetInfo().IndexBytes / (double)count;
        }

        double dictionaryBytes = MeasureDictionary(count);
        Samples bytes = Interleaved.Run(BytesName, "B", context.Repetitions, () => dictionaryBytes, () => indexBytes);
        _ = Open(count);
        _ = ReadCheckpoint();
        Samples open = Interleaved.Run(OpenName, "ms", context.Repetitions, ReadCheckpoint, () => Open(count));
        Samples get = MeasureGet(count);
        Directory.Delete(PackPath, recursive: true);
        return [bytes, open, get];
    }

    private Samples MeasureGet(int count)
    {
        string[] volumes = Directory.GetFiles(Path.Combine(PackPath, "volumes"));
        SafeFileHandle[] files = [.. volumes.Select(path => File.OpenHandle(path))];
        try
        {
            using PackStore pack = PackStore.Open(PackPath);
            int[] order = [.. Enumerable.Range(0, Math.Min(GetCountMax, count))];
            var random = new Random(3);
            for (int i = 0; i < order.Length; i++)
                order[i] = random.Next(count);
            WarmUp.UntilCompiled(() =>
            {
                _ = ReadBare(files, order[..WarmUpCount]);
                _ = _gets.Measure(pack, order[..WarmUpCount]);
            });
            return Interleaved.Run(
                GetName, "ns", context.Repetitions, () => ReadBare(files, order), () => _gets.Measure(pack, order));
        }
        finally
        {
            foreach (SafeFileHandle file in files)
                file.Dispose();
        }
    }

    private static double ReadBare(SafeFileHandle[] files, int[] order)
    {
        Span<byte> buffer = stackalloc byte[GetLength];
        long length = RandomAccess.GetLength(files[0]) - GetLength;
        long read = 0;
        long start = Clock.Now;
        foreach (int number in order)
            read += RandomAccess.Read(files[number % files.Length], buffer, unchecked((uint)number * 2_654_435_761) % length);
        double nanoseconds = Clock.NanosecondsEach(start, order.Length);
        Sums.Check(GetName, (ulong)read, (ulong)order.Length * GetLength);
        return nanoseconds;
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
