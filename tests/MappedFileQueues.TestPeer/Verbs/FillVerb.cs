using System.Buffers.Binary;
using System.Globalization;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `fill STORE SEGMENT shared|exclusive LENGTH`: appends numbered messages until the disk is full, prints `FULL errno count`,
/// commits on the full disk, prints `COMMITTED`; once it is sent a line (space was freed) it appends a hundred more, reads
/// everything again from the first message, and prints `DONE count`. A store into a hole of the file would kill this process
/// on the way.
/// </summary>
internal static class FillVerb
{
    private const int MoreCount = 100;

    public static int Run(string[] arguments)
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions
        {
            StorePath = arguments[0],
            SegmentSize = long.Parse(arguments[1], CultureInfo.InvariantCulture),
            ProducerMode = arguments[2] == "exclusive" ? ProducerMode.Exclusive : ProducerMode.Shared,
        });
        byte[] message = new byte[int.Parse(arguments[3], CultureInfo.InvariantCulture)];
        MappedFileConsumer consumer = queue.OpenConsumer("early");
        // Opened while there is room: what is freed later, the queue may have prepared for messages at once.
        MappedFileConsumer late = queue.OpenConsumer("late");
        int count = 0;
        int errno = AppendUntilFull(queue.Producer, message, ref count);
        // Again, and with the room that smaller messages might find: the first refusal must leave everything in order.
        for (int i = 0; i < 3; i++)
            AppendUntilFull(queue.Producer, message, ref count);
        Console.WriteLine($"FULL {errno} {count}");

        int half = count / 2;
        Expect(consumer, 0, half, message.Length);
        queue.Flush();
        Console.WriteLine($"COMMITTED {half} {queue.GetInfo().ConfirmedOffset >= 0}");
        if (Console.ReadLine() is null)
            return 1;

        for (int i = 0; i < MoreCount; i++)
            queue.Producer.Produce(Number(message, count++));
        Expect(consumer, half, count, message.Length);
        Expect(late, 0, count, message.Length);
        queue.Flush();
        Console.WriteLine($"DONE {count}");
        return 0;
    }

    private static int AppendUntilFull(MappedFileProducer producer, byte[] message, ref int count)
    {
        try
        {
            while (true)
            {
                producer.Produce(Number(message, count));
                count++;
            }
        }
        catch (QueueDiskException error)
        {
            return error.Errno;
        }
    }

    private static void Expect(MappedFileConsumer consumer, int from, int to, int length)
    {
        for (int i = from; i < to; i++)
        {
            if (!consumer.TryConsume(out ReadOnlySpan<byte> message))
                throw new InvalidOperationException($"Message {i} of {to} is missing.");
            if (message.Length != length || BinaryPrimitives.ReadInt32LittleEndian(message) != i || message[^1] != (byte)i)
                throw new InvalidOperationException($"Message {i} is a wrong one.");
            consumer.Commit();
        }

        if (from == 0 && to > 0 && consumer.CommittedOffset != consumer.Offset)
            throw new InvalidOperationException("The commit was not stored.");
    }

    private static byte[] Number(byte[] message, int number)
    {
        BinaryPrimitives.WriteInt32LittleEndian(message, number);
        message[^1] = (byte)number;
        return message;
    }
}
