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

    private static readonly bool s_isAlone = Environment.ProcessorCount < 2;

    private int _number;

    public IReadOnlyList<Func<Samples>> All =>
    [
        () => Measure("append", "ns", () => CopyAndSum().Append, () => AppendAndRead().Append),
        () => Measure("read", "ns", () => CopyAndSum().Read, () => AppendAndRead().Read),
        () => Measure("round_trip", "us", RoundTripRaw, RoundTrip),
        () => Measure("durable_1", "msg/s", FlushRaw, () => Durable(1)),
        () => Measure($"durable_{CallerCount}", "msg/s", FlushRaw, () => Durable(CallerCount)),
    ];

    private string NewPath => Path.Combine(folder, (_number++).ToString("D4", System.Globalization.CultureInfo.InvariantCulture));

    /// <summary>The first turn compiles the code and does not count.</summary>
    private Samples Measure(string name, string unit, Func<double> raw, Func<double> ours)
    {
        Interleaved.Run(name, unit, 1, Checked(raw), Checked(ours));
        return Interleaved.Run(name, unit, Repetitions, Checked(raw), Checked(ours));
    }

    private Func<double> Checked(Func<double> measure) => () =>
    {
        cancellationToken.ThrowIfCancellationRequested();
        return measure();
    };

    private (double Append, double Read) CopyAndSum()
    {
        using RawFile file = RawFile.Create(NewPath, RawFile.LengthFor(MessageCount), allocates: true);
        long start = Clock.Now;
        Copy(file.Start);
        double append = Clock.NanosecondsEach(start, MessageCount);
        start = Clock.Now;
        ulong sum = Sum(file.Start);
        double read = Clock.NanosecondsEach(start, MessageCount);
        Sums.Check("raw", sum, Message64.ExpectedSum(MessageCount));
        return (append, read);
    }

    private static void Copy(byte* place)
    {
        Message64 message = Message64.Create();
        for (int from = 0; from < MessageCount; from += ChunkLength)
            CopyChunk(place + (long)from * Message64.FrameLength, ref message, from);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void CopyChunk(byte* place, ref Message64 message, int from)
    {
        for (int i = 0; i < ChunkLength; i++, place += Message64.FrameLength)
        {
            message.Number = (ulong)(from + i);
            Unsafe.WriteUnaligned(place + sizeof(ulong), message);
            Volatile.Write(ref *(ulong*)place, Message64.Length);
        }
    }

    private static ulong Sum(byte* place)
    {
        ulong sum = 0;
        for (int from = 0; from < MessageCount; from += ChunkLength)
            sum += SumChunk(place + (long)from * Message64.FrameLength);
        return sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong SumChunk(byte* place)
    {
        ulong sum = 0;
        for (int i = 0; i < ChunkLength; i++, place += Message64.FrameLength)
        {
            if (Volatile.Read(ref *(ulong*)place) != 0)
                sum += Unsafe.ReadUnaligned<Message64>(place + sizeof(ulong)).Sum();
        }

        return sum;
    }

    private (double Append, double Read) AppendAndRead()
    {
        using var queue = new MappedFileQueue<Message64>(new MappedFileQueueOptions { StorePath = NewPath });
        MappedFileProducer<Message64> producer = queue.Producer;
        long start = Clock.Now;
        for (int from = 0; from < MessageCount; from += ChunkLength)
            Produce(producer, from, ChunkLength);
        double append = Clock.NanosecondsEach(start, MessageCount);
        MappedFileConsumer<Message64> consumer = queue.Consumer;
        ulong sum = 0;
        start = Clock.Now;
        for (int from = 0; from < MessageCount; from += ChunkLength)
            sum += Consume(consumer, ChunkLength);
        double read = Clock.NanosecondsEach(start, MessageCount);
        Sums.Check("append and read", sum, Message64.ExpectedSum(MessageCount));
        return (append, read);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Produce(MappedFileProducer<Message64> producer, int from, int count)
    {
        Message64 message = Message64.Create();
        for (int i = 0; i < count; i++)
        {
            message.Number = (ulong)(from + i);
            producer.Produce(ref message);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong Consume(MappedFileConsumer<Message64> consumer, int count)
    {
        ulong sum = 0;
        for (int i = 0; i < count; i++)
        {
            consumer.Consume(out Message64 message);
            sum += message.Sum();
            consumer.Commit();
        }

        return sum;
    }

    /// <summary>Two threads answer each other through a word of a mapped file.</summary>
    private double RoundTripRaw()
    {
        using RawFile file = RawFile.Create(NewPath, RawFile.LengthFor(1), allocates: true).TouchForWriting();
        byte* start = file.Start;
        return Trip(
            number => Volatile.Write(ref *(long*)start, number * 2),
            number => Follow(start, number * 2 + 1),
            number =>
            {
                Follow(start, number * 2);
                Volatile.Write(ref *(long*)start, number * 2 + 1);
            });
    }

    private static void Follow(byte* word, long value)
    {
        while (Volatile.Read(ref *(long*)word) != value)
        {
            if (s_isAlone)
                Thread.Yield();
        }
    }

    private double RoundTrip()
    {
        var options = new MappedFileQueueOptions { StorePath = NewPath, ConsumerSpinWaitDuration = Timeout.InfiniteTimeSpan };
        using var there = new MappedFileQueue<long>(options);
        options.StorePath = NewPath;
        using var back = new MappedFileQueue<long>(options);
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
        long[] took = new long[TripCount];
        for (long i = 1; i <= TripCount; i++)
        {
            long start = Clock.Now;
            ask(i);
            hear(i);
            took[i - 1] = Clock.Now - start;
        }

        other.Join();
        Array.Sort(took);
        return Clock.Nanoseconds(took[TripCount / 2]) / 1000;
    }

    /// <summary>Rewrites and flushes one block, again and again.</summary>
    private double FlushRaw()
    {
        byte[] block = new byte[4096];
        using SafeFileHandle file = File.OpenHandle(NewPath, FileMode.CreateNew, FileAccess.ReadWrite);
        RandomAccess.Write(file, block, 0);
        RandomAccess.FlushToDisk(file);
        long start = Clock.Now;
        for (int i = 0; i < FlushCount; i++)
        {
            RandomAccess.Write(file, block, 0);
            if (!OperatingSystem.IsLinux())
                RandomAccess.FlushToDisk(file);
            else if (FlushData(file) != 0)
                throw new ToolException($"A flush of the raw loop failed: errno={Marshal.GetLastPInvokeError()}.");
        }

        return FlushCount * 1e9 / Clock.Nanoseconds(Clock.Now - start);
    }

    [LibraryImport("libc", EntryPoint = "fdatasync", SetLastError = true)]
    private static partial int FlushData(SafeFileHandle file);

    private double Durable(int callers)
    {
        var options = new MappedFileQueueOptions { StorePath = NewPath, Durability = DurabilityLevel.Group };
        using var queue = new MappedFileQueue<Message64>(options);
        int each = callers == 1 ? FlushCount : FlushCount / 10;
        MappedFileProducer<Message64> producer = queue.Producer;
        Produce(producer, 0, 1);
        Thread[] threads = [.. Enumerable.Range(0, callers).Select(_ => new Thread(() => Produce(producer, 0, each)))];
        long start = Clock.Now;
        foreach (Thread thread in threads)
            thread.Start();
        foreach (Thread thread in threads)
            thread.Join();
        double rate = (double)callers * each * 1e9 / Clock.Nanoseconds(Clock.Now - start);
        if (queue.ConfirmedOffset != producer.Offset)
            throw new ToolException($"Messages that were acknowledged are not confirmed: path={options.StorePath}.");
        return rate;
    }
}
