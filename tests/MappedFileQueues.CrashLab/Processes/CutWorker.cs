using System.Globalization;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Memory;

namespace MappedFileQueues.CrashLab.Processes;

/// <summary>
/// The child of a real power loss: `cut-work FAULT STORE BOARD SEED LINE`. It appends and flushes as fast as it can and says on
/// the board, which does not lie on the disk that is cut, what a flush has returned for. After the cut its calls fail.
/// </summary>
internal static class CutWorker
{
    public const string Verb = "cut-work";

    private const int BatchMax = 6;

    public static int Run(string[] arguments)
    {
        PlantedFaults.Active = Enum.Parse<PlantedFault>(arguments[0]);
        using var board = new KillBoard(arguments[2]);
        int seed = int.Parse(arguments[3], CultureInfo.InvariantCulture);
        int line = int.Parse(arguments[4], CultureInfo.InvariantCulture);
        var random = new Random(seed);
        try
        {
            var level = (DurabilityLevel)random.Next(3);
            int segmentLength = 4096 << random.Next(8);
            using var queue = new MappedFileQueue(new MappedFileQueueOptions
            {
                Durability = level,
                FlushInterval = TimeSpan.FromMilliseconds(20),
                StorePath = arguments[1],
                SegmentSize = segmentLength,
                ProducerMode = random.Next(2) == 0 ? ProducerMode.Exclusive : ProducerMode.Shared,
            });
            if (Retains(seed))
                queue.SetRetention(new RetentionOptions
                {
                    MaxBytes = segmentLength * (long)random.Next(1, 5),
                    Recycle = random.Next(8) != 0,
                });
            Work(queue, board, random, seed, line, level);
            return 0;
        }
        catch (MappedFileQueueException error)
        {
            // The disk is gone; whether that is so the parent knows.
            Console.WriteLine(error.Message);
            return 0;
        }
    }

    /// <summary>Whether the store removes what its consumer has committed.</summary>
    public static bool Retains(int seed) => new Random(seed ^ 0x2125).Next(2) == 0;

    private static void Work(
        MappedFileQueue queue, KillBoard board, Random random, int seed, int line, DurabilityLevel level)
    {
        using MappedFileProducer producer = queue.OpenProducer();
        using MappedFileConsumer consumer = queue.OpenConsumer("c");
        for (long number = board.Acked(line) + 1; ;)
        {
            for (int unit = random.Next(1, 20); unit > 0; unit--)
            {
                int count = random.Next(4) == 0 ? random.Next(2, BatchMax + 1) : 1;
                ReadOnlyMemory<byte>[] messages =
                    [.. Enumerable.Range(0, count).Select(i => (ReadOnlyMemory<byte>)Victim.Message(seed, line, number + i))];
                Volatile.Write(ref board.Begun(line), number + count - 1);
                producer.ProduceBatch(messages);
                number += count;
                if (level == DurabilityLevel.Group)
                    Volatile.Write(ref board.Acked(line), number - 1);
            }

            while (random.Next(Retains(seed) ? 60 : 20) != 0 && consumer.TryConsume(out ReadOnlySpan<byte> message))
            {
                Victim.CheckMessage(message, seed, consumer.MessageOffset);
                Volatile.Write(ref board.Committing(line), LabMessage.Head(message).Number);
                consumer.Commit();
            }

            if (Retains(seed) && random.Next(8) == 0)
                queue.Trim(long.MaxValue);

            if (queue.Flush() < consumer.Offset)
                throw new LabViolation("A flush confirms less than was read before it");
            Volatile.Write(ref board.Acked(line), number - 1);
        }
    }
}
