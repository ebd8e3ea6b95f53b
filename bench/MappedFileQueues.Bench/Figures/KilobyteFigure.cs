using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Messages of 1 KiB, Exclusive and verified: nanoseconds for each append beside the bare copy, and for each consume and commit
/// beside the bare read of the same bytes. Every page is there before the clock starts, and a sixteenth of the messages of 64
/// bytes is as many bytes.
/// </summary>
internal sealed unsafe class KilobyteFigure(ChildContext context)
{
    public const string AppendName = "messages_append_1k";
    public const string ReadName = "messages_read_1k";

    private const int Length = 1024;
    private const int FrameLength = Length + sizeof(ulong);
    private const ulong Header = (2UL << 28) | Length;
    private const int WarmUpCount = 100;

    private readonly byte[] _message = new byte[Length];

    public IReadOnlyList<Samples> Measure()
    {
        new Random(1).NextBytes(_message);
        long count = Math.Max(1, context.Messages / 16);
        List<double> rawReads = [];
        List<double> reads = [];
        WarmUp.UntilCompiled(() => MeasureRaw(WarmUpCount, []));
        WarmUp.UntilCompiled(() => MeasureQueue(WarmUpCount, []));
        Samples appends = Interleaved.Run(
            AppendName, "ns", context.Repetitions, () => MeasureRaw(count, rawReads), () => MeasureQueue(count, reads));
        return [appends, new Samples(ReadName, "ns", [.. rawReads], [.. reads])];
    }

    private double MeasureRaw(long count, List<double> reads)
    {
        using RawFile file = RawFile.Create(context.Path("raw"), (count + 4) * FrameLength, allocates: true);
        file.TouchForWriting();
        long start = Clock.Now;
        Copy(file.Start, count);
        double append = Clock.NanosecondsEach(start, count);
        start = Clock.Now;
        ulong sum = Read(file.Start, count);
        reads.Add(Clock.NanosecondsEach(start, count));
        Sums.Check("raw copy of 1 KiB", sum, ExpectedSum(count));
        return append;
    }

    private double MeasureQueue(long count, List<double> reads)
    {
        string path = context.Path("store");
        double append;
        using (var queue = new MappedFileQueue(BenchStore.InOneSegment(path, count * FrameLength / 64, ProducerMode.Exclusive)))
        {
            queue.Producer.Prepare(count * FrameLength);
            long start = Clock.Now;
            Append(queue.Producer, count);
            append = Clock.NanosecondsEach(start, count);
            MappedFileConsumer consumer = queue.Consumer;
            start = Clock.Now;
            ulong sum = Read(consumer, count);
            reads.Add(Clock.NanosecondsEach(start, count));
            Sums.Check(AppendName, sum, ExpectedSum(count));
        }

        BenchStore.Delete(path);
        return append;
    }

    private ulong ExpectedSum(long count)
    {
        Number(0);
        return (ulong)count * Sum(_message) + (ulong)count * (ulong)(count - 1) / 2;
    }

    private void Number(long number) => Unsafe.WriteUnaligned(ref _message[0], number);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void Copy(byte* place, long count)
    {
        for (long i = 0; i < count; i++, place += FrameLength)
        {
            Number(i);
            _message.CopyTo(new Span<byte>(place + sizeof(ulong), Length));
            Volatile.Write(ref *(ulong*)place, Header);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong Read(byte* place, long count)
    {
        ulong sum = 0;
        for (long i = 0; i < count && Volatile.Read(ref *(ulong*)place) == Header; i++, place += FrameLength)
            sum += Sum(new ReadOnlySpan<byte>(place + sizeof(ulong), Length));
        return sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void Append(MappedFileProducer producer, long count)
    {
        for (long i = 0; i < count; i++)
        {
            Number(i);
            producer.Produce(_message);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong Read(MappedFileConsumer consumer, long count)
    {
        ulong sum = 0;
        for (long i = 0; i < count; i++)
        {
            sum += Sum(consumer.Consume());
            consumer.Commit();
        }

        return sum;
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static ulong Sum(ReadOnlySpan<byte> message)
    {
        Vector<ulong> sum = Vector<ulong>.Zero;
        foreach (Vector<ulong> some in MemoryMarshal.Cast<byte, Vector<ulong>>(message))
            sum += some;
        return Vector.Sum(sum);
    }
}
