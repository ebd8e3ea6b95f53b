using System.Buffers.Binary;

namespace MappedFileQueues.TestPeer;

/// <summary>A message of the stress tests: producer, sequence, and a pattern whose length and bytes follow from both.</summary>
internal static class StressMessage
{
    private const int HeadLength = 16;

    public static ReadOnlySpan<byte> Make(byte[] buffer, long producer, long sequence)
    {
        Span<byte> message = buffer.AsSpan(0, LengthOf(producer, sequence));
        BinaryPrimitives.WriteInt64LittleEndian(message, producer);
        BinaryPrimitives.WriteInt64LittleEndian(message[8..], sequence);
        for (int i = HeadLength; i < message.Length; i++)
            message[i] = Pattern(producer, sequence, i);
        return message;
    }

    /// <summary>False when a byte, or the length, is not what producer and sequence ask for.</summary>
    public static bool TryParse(ReadOnlySpan<byte> message, out long producer, out long sequence)
    {
        producer = sequence = -1;
        if (message.Length < HeadLength)
            return false;
        producer = BinaryPrimitives.ReadInt64LittleEndian(message);
        sequence = BinaryPrimitives.ReadInt64LittleEndian(message[8..]);
        if (message.Length != LengthOf(producer, sequence))
            return false;
        for (int i = HeadLength; i < message.Length; i++)
        {
            if (message[i] != Pattern(producer, sequence, i))
                return false;
        }

        return true;
    }

    /// <summary>Sends all messages of one producer, one by one, in batches and in place.</summary>
    public static void Produce(MappedFileProducer producer, long id, int count)
    {
        byte[] buffer = new byte[256];
        for (int sequence = 0; sequence < count;)
        {
            switch (sequence % 7)
            {
                case 3 when sequence + 3 <= count:
                    var batch = new ReadOnlyMemory<byte>[3];
                    for (int i = 0; i < batch.Length; i++)
                        batch[i] = Make(buffer, id, sequence++).ToArray();
                    producer.ProduceBatch(batch);
                    break;
                case 6:
                    ReadOnlySpan<byte> message = Make(buffer, id, sequence++);
                    using (MessageClaim claim = producer.DangerousClaim(message.Length + 40))
                    {
                        message.CopyTo(claim.Span);
                        claim.Publish(message.Length);
                    }

                    break;
                default:
                    producer.Produce(Make(buffer, id, sequence++));
                    break;
            }
        }
    }

    private static int LengthOf(long producer, long sequence) => HeadLength + (int)(((sequence * 13) + producer) % 120);

    private static byte Pattern(long producer, long sequence, int index) =>
        (byte)((producer * 59) + (sequence * 31) + (index * 7));
}
