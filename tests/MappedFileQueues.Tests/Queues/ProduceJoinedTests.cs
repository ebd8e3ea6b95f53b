using System.Buffers;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Queues;

/// <summary>One message that is in several pieces.</summary>
public sealed class ProduceJoinedTests
{
    public static TheoryData<ProducerMode, bool> Variants => MessageLengthTests.Variants;

    [Theory, MemberData(nameof(Variants))]
    public void Produce_EveryCutOfEveryLength_ComesBackWhole(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        MappedFileProducer producer = queue.Producer;
        List<byte[]> expected = [];
        for (int length = 0; length <= 40; length++)
        {
            ReadOnlyMemory<byte> bytes = Payload.Bytes(length, length);
            for (int cut = 0; cut <= length; cut++)
            {
                ReadOnlyMemory<byte> head = bytes[..cut], body = bytes[cut..];
                long first = producer.Produce(Pieces.Join(head, ReadOnlyMemory<byte>.Empty, body));
                Assert.True(first < producer.ProduceJoined([head, body]));
                producer.ProduceJoined(head.Span, body.Span);
                producer.ProduceJoined(head.Span, [], body.Span, new ProduceOptions { Durability = DurabilityLevel.PageCache });
                expected.AddRange([bytes.ToArray(), bytes.ToArray(), bytes.ToArray(), bytes.ToArray()]);
            }
        }

        producer.ProduceJoined(ReadOnlySpan<ReadOnlyMemory<byte>>.Empty);
        producer.Produce(ReadOnlySequence<byte>.Empty);
        producer.Produce(new ReadOnlySequence<byte>([7]));
        expected.AddRange([[], [], [7]]);
        Assert.Equal(expected, ReadAll(queue));
    }

    [Theory, MemberData(nameof(Variants))]
    public void Produce_TooLong_RefusedAndNothingIsWritten(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        MappedFileProducer producer = queue.Producer;
        byte[] half = new byte[producer.MessageLengthMax / 2];
        Assert.Throws<ArgumentOutOfRangeException>(() => producer.Produce(Pieces.Join(half, half, new byte[2])));
        Assert.Throws<ArgumentOutOfRangeException>(() => producer.ProduceJoined([half, half, new byte[2]]));
        Assert.Throws<ArgumentOutOfRangeException>(() => producer.ProduceJoined(half, half, new byte[2]));
        producer.ProduceJoined(half, half);

        Assert.Equal([new byte[half.Length * 2]], ReadAll(queue));
        Assert.Empty(queue.GetInfo().OpenClaims);
    }

    [Theory, MemberData(nameof(Variants))]
    public void Produce_PieceThrowsOrProduces_NothingIsSeenAndTheNextWorks(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        MappedFileProducer producer = queue.Producer;
        using var memory = new CallingMemory(() => producer.Produce([9]));

        Assert.Throws<InvalidOperationException>(() => producer.Produce(Pieces.Join(new byte[] { 2 }, memory.Memory)));
        Assert.Throws<InvalidOperationException>(() => producer.ProduceJoined([new byte[] { 2 }, memory.Memory]));
        producer.Produce([5]);

        Assert.Equal([[5]], ReadAll(queue));
        Assert.Empty(queue.GetInfo().OpenClaims);
    }

    [Theory, MemberData(nameof(Variants))]
    public void ProduceJoined_PartsChangeMeanwhile_RefusedLongerOrShorter(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        foreach (int length in new[] { 7, 9 })
        {
            ReadOnlyMemory<byte>[] parts = new ReadOnlyMemory<byte>[2];
            using var memory = new CallingMemory(() => parts[1] = new byte[length]);
            (parts[0], parts[1]) = (memory.Memory, new byte[8]);
            Assert.Throws<InvalidOperationException>(() => queue.Producer.ProduceJoined(parts));
        }

        queue.Producer.Produce([5]);
        Assert.Equal([[5]], ReadAll(queue));
    }

    [Theory, MemberData(nameof(Variants))]
    public void Produce_WithOptions_TheyCountForTheWholeCall(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable, options =>
        {
            options.MaxUnconsumedBytes = 100;
            options.FlushInterval = Timeout.InfiniteTimeSpan;
        });
        queue.OpenConsumer("closed").Dispose();
        MappedFileProducer producer = queue.Producer;
        var group = new ProduceOptions { Durability = DurabilityLevel.Group };
        long offset = producer.Produce(Pieces.Join(new byte[20], new byte[20]), group);
        Assert.True(queue.ConfirmedOffset > offset);
        producer.ProduceJoined(new byte[20], new byte[20]);

        Assert.Throws<TimeoutException>(() => producer.ProduceJoined(
            new byte[20], new byte[20], options: new ProduceOptions { Timeout = TimeSpan.FromMilliseconds(5) }));
        Assert.ThrowsAny<OperationCanceledException>(() => producer.Produce(
            Pieces.Join(new byte[20], new byte[20]), new ProduceOptions { CancellationToken = new CancellationToken(true) }));
        Assert.Equal(2, ReadAll(queue).Count);
    }

    [Theory, MemberData(nameof(Variants))]
    public async Task ProduceAsync_WithASerializer_ItRunsBeforeTheCallReturns(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        MappedFileProducer producer = queue.Producer;
        var serializer = Utf8MessageSerializer.Instance;
        await producer.ProduceAsync("one", serializer);
        await producer.ProduceAsync("two", serializer, new ProduceOptions { Durability = DurabilityLevel.Group });
        Assert.Throws<FormatException>(() => { _ = producer.ProduceAsync("three", new Refusing()); });
        await producer.ProduceAsync("four", new Plain());

        Assert.Equal(["one", "two", "four"], ReadAll(queue).Select(bytes => System.Text.Encoding.UTF8.GetString(bytes)));
    }

    private static List<byte[]> ReadAll(MappedFileQueue queue)
    {
        List<byte[]> read = [];
        while (queue.Consumer.TryConsume(out ReadOnlySpan<byte> message))
        {
            read.Add(message.ToArray());
            queue.Consumer.Commit();
        }

        return read;
    }

    private static MappedFileQueue Open(
        TempStore store, ProducerMode mode, bool portable, Action<MappedFileQueueOptions>? configure = null)
    {
        PlatformScope.Use(portable);
        var options = new MappedFileQueueOptions { StorePath = store.StorePath, ProducerMode = mode, SegmentSize = 4096 };
        configure?.Invoke(options);
        return new MappedFileQueue(options);
    }

    private sealed class Refusing : IBufferedMessageSerializer<string>
    {
        public ReadOnlySpan<byte> Serialize(string message) => throw new FormatException();

        public void Serialize(string message, IBufferWriter<byte> destination)
        {
            destination.Write("half"u8);
            throw new FormatException();
        }
    }

    private sealed class Plain : IMessageSerializer<string>
    {
        public ReadOnlySpan<byte> Serialize(string message) => System.Text.Encoding.UTF8.GetBytes(message);
    }

    private sealed class CallingMemory(Action call) : MemoryManager<byte>
    {
        private readonly byte[] _bytes = [1, 2, 3, 4, 5, 6, 7, 8];

        public override Span<byte> GetSpan()
        {
            call();
            return _bytes;
        }

        public override Memory<byte> Memory => CreateMemory(_bytes.Length);

        public override MemoryHandle Pin(int elementIndex = 0) => throw new NotSupportedException();

        public override void Unpin()
        {
        }

        protected override void Dispose(bool disposing)
        {
        }
    }
}
