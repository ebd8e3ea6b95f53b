using System.Runtime.InteropServices;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>What a walk through the messages gave: those that were read, then how it ended.</summary>
/// <param name="Messages">Offset and bytes of each, in the order of reading.</param>
/// <param name="Failure">The exception that ended it; null when the end of the log did.</param>
internal sealed record HostileReading(IReadOnlyList<(long Offset, byte[] Bytes)> Messages, Exception? Failure)
{
    /// <summary>More than any hostile store holds: a reader that goes in circles is stopped here.</summary>
    private const int CountMax = 10_000;

    /// <summary>Gives the next message with its offset; null at the end.</summary>
    public delegate (long Offset, byte[] Bytes)? Next();

    /// <summary>Reads until the end or an exception of the library; any other exception goes through.</summary>
    public static HostileReading Run(Func<Next> open)
    {
        List<(long Offset, byte[] Bytes)> messages = [];
        try
        {
            Next next = open();
            while (next() is { } message)
            {
                messages.Add(message);
                if (messages.Count > CountMax)
                    throw new InvalidOperationException("The reader goes in circles.");
            }

            return new HostileReading(messages, null);
        }
        catch (MappedFileQueueException error)
        {
            return new HostileReading(messages, error);
        }
    }
}

/// <summary>The two kinds of queue behind one face.</summary>
internal abstract class HostileQueue : IDisposable
{
    public static HostileQueue Open(bool isStruct, MappedFileQueueOptions options) =>
        isStruct ? new HostileStructQueue(options) : new HostileMessageQueue(options);

    /// <summary>The bytes that <see cref="Append"/> writes.</summary>
    public static byte[] BytesOf(bool isStruct, int index, int length)
    {
        if (!isStruct)
            return HostileMessage.Bytes(index, length);
        HostileStruct message = HostileMessage.Struct(index);
        return MemoryMarshal.AsBytes(MemoryMarshal.CreateSpan(ref message, 1)).ToArray();
    }

    /// <summary>Appends message number <paramref name="index"/>; returns its offset.</summary>
    public abstract long Append(int index, int length);

    /// <summary>Appends messages as one batch; returns the first one's offset.</summary>
    public abstract long AppendBatch(int firstIndex, ReadOnlySpan<int> lengths);

    /// <summary>Reads all messages through a consumer; commits after <paramref name="commitAfter"/> of them.</summary>
    public abstract HostileReading Consume(string name, int commitAfter = -1, TimeSpan waitAtEnd = default);

    public abstract long Flush();

    public abstract void Dispose();

    private sealed class HostileMessageQueue(MappedFileQueueOptions options) : HostileQueue
    {
        private readonly MappedFileQueue _queue = new(options);

        public override long Append(int index, int length) => _queue.Producer.Produce(
            HostileMessage.Bytes(index, length), new ProduceOptions { Headers = HostileMessage.Headers(index) });

        public override long AppendBatch(int firstIndex, ReadOnlySpan<int> lengths)
        {
            var messages = new ReadOnlyMemory<byte>[lengths.Length];
            for (int i = 0; i < lengths.Length; i++)
                messages[i] = HostileMessage.Bytes(firstIndex + i, lengths[i]);
            return _queue.Producer.ProduceBatch(messages);
        }

        public override HostileReading Consume(string name, int commitAfter, TimeSpan waitAtEnd) => HostileReading.Run(() =>
        {
            MappedFileConsumer consumer = _queue.OpenConsumer(name);
            return () =>
            {
                if (consumer.MessageOffset >= 0 && commitAfter-- > 0)
                    consumer.Commit();
                else if (consumer.MessageOffset >= 0)
                    consumer.Advance();
                if (!consumer.TryConsume(out ReadOnlySpan<byte> message) && !consumer.TryConsume(out message, waitAtEnd))
                    return null;
                return (consumer.MessageOffset, message.ToArray());
            };
        });

        public override long Flush() => _queue.Flush();

        public override void Dispose() => _queue.Dispose();
    }

    private sealed class HostileStructQueue(MappedFileQueueOptions options) : HostileQueue
    {
        private readonly MappedFileQueue<HostileStruct> _queue = new(options);

        public override long Append(int index, int length) => _queue.Producer.Produce(
            HostileMessage.Struct(index), new ProduceOptions { Headers = HostileMessage.Headers(index) });

        public override long AppendBatch(int firstIndex, ReadOnlySpan<int> lengths)
        {
            var messages = new HostileStruct[lengths.Length];
            for (int i = 0; i < lengths.Length; i++)
                messages[i] = HostileMessage.Struct(firstIndex + i);
            return _queue.Producer.ProduceBatch(messages);
        }

        public override HostileReading Consume(string name, int commitAfter, TimeSpan waitAtEnd) => HostileReading.Run(() =>
        {
            MappedFileConsumer<HostileStruct> consumer = _queue.OpenConsumer(name);
            return () =>
            {
                if (consumer.MessageOffset >= 0 && commitAfter-- > 0)
                    consumer.Commit();
                else if (consumer.MessageOffset >= 0)
                    consumer.Advance();
                if (!consumer.TryConsume(out HostileStruct message) && !consumer.TryConsume(out message, waitAtEnd))
                    return null;
                return (consumer.MessageOffset, ToBytes(message));
            };
        });

        public override long Flush() => _queue.Flush();

        public override void Dispose() => _queue.Dispose();

        private static byte[] ToBytes(HostileStruct message) =>
            MemoryMarshal.AsBytes(MemoryMarshal.CreateSpan(ref message, 1)).ToArray();
    }
}
