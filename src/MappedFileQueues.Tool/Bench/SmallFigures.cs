using System.Diagnostics;
using System.IO.MemoryMappedFiles;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Tool.Bench;

/// <summary>The figures of `mfq bench`. Each reads back what it wrote, and fails if the sum differs.</summary>
internal sealed unsafe partial class SmallFigures(string folder, CancellationToken cancellationToken)
{
    public const int Repetitions = 5;

    private const int MessageCount = 500_000;
    private const int TripCount = 50_000;
    private const int FlushCount = 300;
    private const int CallerCount = 64;

    /// <summary>So few that each loop soon runs as optimised code.</summary>
    private const int ChunkLength = 1000;

    /// <summary>A header and a message.</summary>
    private const int FrameLength = sizeof(long) + 64;

    private static readonly bool s_isAlone = Environment.ProcessorCount < 2;

    private int _number;

    public IEnumerable<FigureResult> Measure() =>
    [
        Measure("append", "ns", () => CopyAndSum().Append, () => AppendAndRead().Append),
        Measure("read", "ns", () => CopyAndSum().Read, () => AppendAndRead().Read),
        Measure("round_trip", "us", RoundTripRaw, RoundTrip),
        Measure("durable_1", "msg/s", FlushRaw, () => Durable(1)),
        Measure($"durable_{CallerCount}", "msg/s", FlushRaw, () => Durable(CallerCount)),
    ];

    private string NewPath() => Path.Combine(folder, $"{_number++:D4}");

    /// <summary>
    /// Raw, queue, raw, queue …: a disturbance of the machine affects both sides. The first turn compiles and does not count.
    /// </summary>
    private FigureResult Measure(string name, string unit, Func<double> raw, Func<double> ours)
    {
        List<(double Raw, double Ours)> turns = [];
        for (int i = 0; i <= Repetitions; i++)
        {
            cancellationToken.ThrowIfCancellationRequested();
            turns.Add((raw(), ours()));
        }

        return FigureResult.Of(new Samples(
            name, unit, [.. turns.Skip(1).Select(turn => turn.Raw)], [.. turns.Skip(1).Select(turn => turn.Ours)]));
    }

    private (double Append, double Read) CopyAndSum() => Map((long)MessageCount * FrameLength, file => Chunks(
        from => CopyChunk((byte*)file + (long)from * FrameLength, from),
        from => SumChunk((byte*)file + (long)from * FrameLength)));

    /// <summary>The framework maps the raw loop's file: it must not depend on what it is compared with.</summary>
    private T Map<T>(long length, Func<nint, T> measure)
    {
        string path = NewPath();
        File.OpenHandle(path, FileMode.CreateNew, FileAccess.Write, preallocationSize: length).Dispose();
        using var file = MemoryMappedFile.CreateFromFile(path, FileMode.Open, null, length);
        // Only the handle: to dispose the accessor would flush the file to the disk.
        using SafeMemoryMappedViewHandle view = file.CreateViewAccessor().SafeMemoryMappedViewHandle;
        byte* place = null;
        view.AcquirePointer(ref place);
        try
        {
            return measure((nint)place);
        }
        finally
        {
            view.ReleasePointer();
        }
    }

    private (double Append, double Read) AppendAndRead()
    {
        using var queue = new MappedFileQueue<Message64>(new MappedFileQueueOptions { StorePath = NewPath() });
        return Chunks(from => Produce(queue.Producer, from, ChunkLength), _ => Consume(queue.Consumer));
    }

    /// <summary>Nanoseconds a message of both.</summary>
    private static (double Append, double Read) Chunks(Action<int> append, Func<int, long> read)
    {
        long start = Stopwatch.GetTimestamp();
        for (int from = 0; from < MessageCount; from += ChunkLength)
            append(from);
        double appended = Stopwatch.GetElapsedTime(start).TotalNanoseconds / MessageCount;
        long sum = 0;
        start = Stopwatch.GetTimestamp();
        for (int from = 0; from < MessageCount; from += ChunkLength)
            sum += read(from);
        double wasRead = Stopwatch.GetElapsedTime(start).TotalNanoseconds / MessageCount;
        const long Expected = (long)MessageCount * (MessageCount - 1) / 2;
        return sum == Expected ? (appended, wasRead) : throw new ToolException(
            $"The messages read differ from those written: sum={sum}, expected={Expected}.");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void CopyChunk(byte* place, int from)
    {
        Message64 message = default;
        for (int i = 0; i < ChunkLength; i++, place += FrameLength)
        {
            message.Number = from + i;
            Unsafe.WriteUnaligned(place + sizeof(long), message);
            Volatile.Write(ref *(long*)place, sizeof(Message64));
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static long SumChunk(byte* place)
    {
        long sum = 0;
        for (int i = 0; i < ChunkLength; i++, place += FrameLength)
            sum += Volatile.Read(ref *(long*)place) == 0 ? 0 : Unsafe.ReadUnaligned<Message64>(place + sizeof(long)).Sum;
        return sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Produce(MappedFileProducer<Message64> producer, int from, int count)
    {
        Message64 message = default;
        for (int i = 0; i < count; i++)
        {
            message.Number = from + i;
            producer.Produce(ref message);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static long Consume(MappedFileConsumer<Message64> consumer)
    {
        long sum = 0;
        for (int i = 0; i < ChunkLength; i++)
        {
            consumer.Consume(out Message64 message);
            sum += message.Sum;
            consumer.Commit();
        }

        return sum;
    }

    /// <summary>Two threads answer each other through a word of a mapped file.</summary>
    private double RoundTripRaw() => Map(sizeof(long), word => Trip(
        number => Volatile.Write(ref *(long*)word, number * 2),
        number => Follow((long*)word, number * 2 + 1),
        number =>
        {
            Follow((long*)word, number * 2);
            Volatile.Write(ref *(long*)word, number * 2 + 1);
        }));

    private static void Follow(long* word, long value)
    {
        while (Volatile.Read(ref *word) != value)
        {
            if (s_isAlone)
                Thread.Yield();
        }
    }

    private double RoundTrip()
    {
        MappedFileQueueOptions Options() =>
            new() { StorePath = NewPath(), ConsumerSpinWaitDuration = Timeout.InfiniteTimeSpan };
        using var there = new MappedFileQueue<long>(Options());
        using var back = new MappedFileQueue<long>(Options());
        return Trip(
            number => there.Producer.Produce(ref number),
            number => Expect(back.Consumer, number),
            number =>
            {
                Expect(there.Consumer, number);
                back.Producer.Produce(ref number);
            });
    }

    private static void Expect(MappedFileConsumer<long> consumer, long number)
    {
        consumer.Consume(out long found);
        consumer.Commit();
        if (found != number)
            throw new ToolException($"A message came out of order: expected={number}, found={found}.");
    }

    private static double Trip(Action<long> ask, Action<long> hear, Action<long> answer)
    {
        var other = new Thread(() =>
        {
            for (long i = 1; i <= TripCount; i++)
                answer(i);
        });
        other.Start();
        double[] took = new double[TripCount];
        for (long i = 1; i <= TripCount; i++)
        {
            long start = Stopwatch.GetTimestamp();
            ask(i);
            hear(i);
            took[i - 1] = Stopwatch.GetElapsedTime(start).TotalMicroseconds;
        }

        other.Join();
        return FigureResult.Median(took);
    }

    /// <summary>Rewrites and flushes one block, again and again.</summary>
    private double FlushRaw()
    {
        byte[] block = new byte[4096];
        using SafeFileHandle file = File.OpenHandle(NewPath(), FileMode.CreateNew, FileAccess.ReadWrite);
        RandomAccess.Write(file, block, 0);
        RandomAccess.FlushToDisk(file);
        long start = Stopwatch.GetTimestamp();
        for (int i = 0; i < FlushCount; i++)
        {
            RandomAccess.Write(file, block, 0);
            if (!OperatingSystem.IsLinux())
                RandomAccess.FlushToDisk(file);
            else if (FlushData(file) != 0)
                throw new ToolException($"A flush of the raw loop failed: errno={Marshal.GetLastPInvokeError()}.");
        }

        return FlushCount / Stopwatch.GetElapsedTime(start).TotalSeconds;
    }

    [LibraryImport("libc", EntryPoint = "fdatasync", SetLastError = true)]
    private static partial int FlushData(SafeFileHandle file);

    private double Durable(int callers)
    {
        var options = new MappedFileQueueOptions { StorePath = NewPath(), Durability = DurabilityLevel.Group };
        using var queue = new MappedFileQueue<Message64>(options);
        int each = callers == 1 ? FlushCount : FlushCount / 10;
        MappedFileProducer<Message64> producer = queue.Producer;
        Produce(producer, 0, 1);
        Thread[] threads = [.. Enumerable.Range(0, callers).Select(_ => new Thread(() => Produce(producer, 0, each)))];
        long start = Stopwatch.GetTimestamp();
        foreach (Thread thread in threads)
            thread.Start();
        foreach (Thread thread in threads)
            thread.Join();
        double rate = callers * each / Stopwatch.GetElapsedTime(start).TotalSeconds;
        return queue.ConfirmedOffset == producer.Offset ? rate : throw new ToolException(
            $"Messages that were acknowledged are not confirmed: path={options.StorePath}.");
    }

    private record struct Message64(long Number, long B, long C, long D, long E, long F, long G, long H)
    {
        public readonly long Sum => Number + B + C + D + E + F + G + H;
    }
}
