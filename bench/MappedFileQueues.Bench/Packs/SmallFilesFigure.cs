using System.Buffers.Binary;
using System.Globalization;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Packs;

namespace MappedFileQueues.Bench.Packs;

/// <summary>
/// Nanoseconds for each of up to 200,000 objects of 2 KiB (16,000 with `--quick`), written and then read in random order, in
/// the system's cache or not: a pack beside a file for each (File.WriteAllBytes, File.ReadAllBytes, a thousand in a directory).
/// Both have handed the bytes to the system when a put returns, and neither flushes.
/// </summary>
internal sealed class SmallFilesFigure(ChildContext context)
{
    public const string PutName = "pack_put";
    public const string WarmName = "pack_get_warm";
    public const string ReadName = "pack_get_read";
    public const string ColdName = "pack_get_cold";

    private const int DataLength = 2048;
    private const int CountMax = 200_000;
    private const int CountMaxQuick = 16_000;
    private const int FilesPerFolder = 1000;

    private const int WarmUpCount = 20;

    private readonly byte[] _data = new byte[DataLength];
    private readonly PackGets _gets = new(WarmName, Key);

    private int Count => (int)Math.Min(context.Task.IsQuick ? CountMaxQuick : CountMax, context.Bytes / DataLength);

    private string FilesPath => context.Path("files");

    private string PackPath => context.Path("pack");

    public IReadOnlyList<Samples> Measure()
    {
        new Random(1).NextBytes(_data);
        WarmUpAll();
        int count = Count;
        List<(double RawPut, double Put)> puts = [];
        for (int i = 0; i < context.Repetitions; i++)
            puts.Add(Round(count));

        int[] order = [.. Enumerable.Range(0, count)];
        new Random(2).Shuffle(order);
        List<Samples> all = [new Samples(PutName, "ns", [.. puts.Select(put => put.RawPut)], [.. puts.Select(put => put.Put)])];
        all.Add(MeasureWarm(WarmName, order, new PackOptions()));
        all.Add(MeasureWarm(ReadName, order, new PackOptions { MapVolumes = false }));
        Directory.Delete(FilesPath, recursive: true);
        return all;
    }

    /// <summary>
    /// In a process of its own, since it drops the caches of the whole machine; empty where the rights are missing.
    /// </summary>
    public IReadOnlyList<Samples> MeasureCold()
    {
        new Random(1).NextBytes(_data);
        int count = Count;
        _ = Round(count);
        int[] order = [.. Enumerable.Range(0, count)];
        new Random(2).Shuffle(order);
        List<Samples> all = [];
        if (SystemCache.TryDrop(PackPath))
            all.Add(Interleaved.Run(ColdName, "ns", context.Repetitions, () => ReadFilesCold(order), () => ReadPackCold(order)));
        else
            Console.Error.WriteLine($"{ColdName} is left out: dropping the system's caches needs root, on Linux.");
        Directory.Delete(FilesPath, recursive: true);
        return all;
    }

    private Samples MeasureWarm(string name, int[] order, PackOptions options)
    {
        using PackStore pack = PackStore.Open(PackPath, options);
        return Interleaved.Run(name, "ns", context.Repetitions, () => ReadFiles(order), () => _gets.Measure(pack, order));
    }

    private double ReadFilesCold(int[] order)
    {
        _ = SystemCache.TryDrop(PackPath);
        return ReadFiles(order);
    }

    /// <summary>On a pack that was just opened, as a program does that has just started.</summary>
    private double ReadPackCold(int[] order)
    {
        _ = SystemCache.TryDrop(PackPath);
        using PackStore pack = PackStore.Open(PackPath);
        return _gets.Measure(pack, order);
    }

    private static string Key(int number) => number.ToString(CultureInfo.InvariantCulture);

    /// <summary>On one open pack: to make one takes longer than all the rest.</summary>
    private void WarmUpAll()
    {
        int[] order = [.. Enumerable.Range(0, WarmUpCount)];
        string path = context.Path("warm");
        using (PackStore pack = PackStore.Open(path))
        {
            WarmUp.UntilCompiled(() =>
            {
                _ = WriteFiles(WarmUpCount);
                _ = Put(pack, WarmUpCount);
                _ = ReadFiles(order);
                _ = _gets.Measure(pack, order);
            });
        }

        Directory.Delete(path, recursive: true);
    }

    /// <summary>Writes all, both ways; what the round before left is removed outside of the time that is measured.</summary>
    private (double RawPut, double Put) Round(int count)
    {
        foreach (string path in (string[])[FilesPath, PackPath])
        {
            if (Directory.Exists(path))
                Directory.Delete(path, recursive: true);
        }

        return (WriteFiles(count), WritePack(count));
    }

    private double WriteFiles(int count)
    {
        for (int folder = 0; folder <= count / FilesPerFolder; folder++)
            Directory.CreateDirectory(Path.Combine(FilesPath, Key(folder)));
        long start = Clock.Now;
        for (int number = 0; number < count; number++)
        {
            Mark(number);
            File.WriteAllBytes(PathOf(number), _data);
        }

        return Clock.NanosecondsEach(start, count);
    }

    private double WritePack(int count)
    {
        using PackStore pack = PackStore.Open(PackPath);
        return Put(pack, count);
    }

    private double Put(PackStore pack, int count)
    {
        long start = Clock.Now;
        for (int number = 0; number < count; number++)
        {
            Mark(number);
            pack.Put(Key(number), _data);
        }

        return Clock.NanosecondsEach(start, count);
    }

    private double ReadFiles(int[] order)
    {
        ulong sum = 0;
        long start = Clock.Now;
        foreach (int number in order)
            sum += BinaryPrimitives.ReadUInt32LittleEndian(File.ReadAllBytes(PathOf(number)));
        double nanoseconds = Clock.NanosecondsEach(start, order.Length);
        Sums.Check("small files", sum, (ulong)order.Sum(number => (long)number));
        return nanoseconds;
    }

    private void Mark(int number) => BinaryPrimitives.WriteInt32LittleEndian(_data, number);

    private string PathOf(int number) => Path.Combine(FilesPath, Key(number / FilesPerFolder), Key(number));
}
