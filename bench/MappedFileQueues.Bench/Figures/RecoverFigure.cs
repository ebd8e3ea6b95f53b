using System.Numerics;
using System.Runtime.InteropServices;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;
using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Segments;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Gigabytes a second of recovery after a power loss, in a fresh process: a store of 1 GiB whose checkpoint is at 0 and that
/// was used in another boot, so that every frame is read and its checksum verified. Beside it a bare pass over the same files:
/// positioned reads and a checksum of each 72 bytes. Both find the files in the page cache, written back. Afterwards every
/// message is read.
/// </summary>
internal static class RecoverFigure
{
    public const string Name = "recover_1gib";
    public const string FillRole = "recover_1gib_fill";
    public const string QueueRole = "recover_1gib_queue";

    private const string Unit = "GB/s";
    private const long FullCount = (1L << 30) / Message64.FrameLength;
    private const int PieceLength = (1 << 20) / Message64.FrameLength * Message64.FrameLength;

    private static readonly Guid s_earlierBoot = new("00000000-0000-4000-8000-0000000000b0");

    public static IReadOnlyList<Samples> Measure(BenchRun run) =>
    [
        Interleaved.Run(
            Name, Unit, run.Settings.Repetitions, () => MeasureRole(run, FillRole), () => MeasureRole(run, QueueRole)),
    ];

    /// <summary>Runs in a child: makes the store and, being there, the bare pass over it.</summary>
    public static IReadOnlyList<Samples> Fill(ChildContext context)
    {
        long count = BenchStore.CountFor(context.Messages, FullCount);
        using (MappedFileQueue<Message64> queue = Open(context, ProducerMode.Exclusive))
        {
            Message64 message = Message64.Create();
            MappedFileProducer<Message64> producer = queue.Producer;
            for (long i = 0; i < count; i++)
            {
                message.Number = (ulong)i;
                producer.Produce(ref message);
            }

            queue.Flush();
        }

        Age(context.Path("store"));
        string[] files = [.. Directory.EnumerateFiles(context.Path("store/commitlog")).Order(StringComparer.Ordinal)];
        long left = count * Message64.FrameLength;
        byte[] piece = new byte[PieceLength];
        ReadThrough(files, left, piece);
        long start = Clock.Now;
        uint sum = ReadThrough(files, left, piece);
        double rate = Rate(left, start);
        return sum == 0 ? throw new ToolException("The bare pass summed up nothing.") : [new Samples(Name, Unit, [rate], [])];
    }

    /// <summary>Runs in a child.</summary>
    public static IReadOnlyList<Samples> Recover(ChildContext context)
    {
        long count = BenchStore.CountFor(context.Messages, FullCount);
        long start = Clock.Now;
        using (MappedFileQueue<Message64> queue = Open(context, ProducerMode.Shared))
        {
            double rate = Rate(count * Message64.FrameLength, start);
            if (queue.GetInfo().Epoch != 1)
                throw new ToolException("The store was not recovered as after a power loss.");
            MappedFileConsumer<Message64> consumer = queue.Consumer;
            ulong sum = 0;
            for (long i = 0; i < count; i++)
            {
                consumer.Consume(out Message64 message);
                sum += message.Sum();
                consumer.Advance();
            }

            Sums.Check(Name, sum, Message64.ExpectedSum(count));
            return [new Samples(Name, Unit, [rate], [])];
        }
    }

    private static double MeasureRole(BenchRun run, string role)
    {
        using BenchChild child = run.StartChild(role);
        double rate = child.ReadSamples()[0].Raw[0];
        if (role == QueueRole)
            BenchStore.Delete(Path.Combine(run.Directory, "store"));
        return rate;
    }

    /// <summary>As if the machine had been started anew since the first message, with no flush in between.</summary>
    private static void Age(string path)
    {
        using HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(path, create: false, mode: null)!;
        StoreMeta meta = StoreMetaFile.Read(directory)!;
        using (ControlPage control = ControlPage.Open(directory))
        {
            control.BootId = s_earlierBoot;
            control.SealColdBlock(meta.StoreId);
        }

        new CheckpointFile(directory, meta.StoreId).WriteBoth(0, 0, s_earlierBoot);
    }

    private static uint ReadThrough(string[] files, long length, byte[] piece)
    {
        uint all = 0;
        foreach (string path in files)
        {
            using SafeFileHandle file = File.OpenHandle(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite);
            for (long at = 0; length > 0;)
            {
                int read = RandomAccess.Read(file, piece, at);
                if (read == 0)
                    break;
                all ^= SumUp(MemoryMarshal.Cast<byte, ulong>(piece.AsSpan(0, (int)Math.Min(read, length) & ~7)));
                at += read;
                length -= read;
            }
        }

        return all;
    }

    private static uint SumUp(ReadOnlySpan<ulong> words)
    {
        const int wordsOfFrame = Message64.FrameLength / sizeof(ulong);
        uint all = 0;
        for (int i = 0; i + wordsOfFrame <= words.Length; i += wordsOfFrame)
        {
            uint crc = uint.MaxValue;
            foreach (ulong word in words.Slice(i, wordsOfFrame))
                crc = BitOperations.Crc32C(crc, word);
            all ^= crc;
        }

        return all;
    }

    private static double Rate(long bytes, long start) => bytes / Clock.Nanoseconds(Clock.Now - start);

    private static MappedFileQueue<Message64> Open(ChildContext context, ProducerMode mode) => new(new MappedFileQueueOptions
    {
        StorePath = context.Path("store"),
        ProducerMode = mode,
        Durability = DurabilityLevel.PageCache,
    });
}
