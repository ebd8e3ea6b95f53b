using System.Buffers;
using System.Buffers.Binary;
using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Files;
using MappedFileQueues.Tests.Format;

namespace MappedFileQueues.Tests.Queues;

/// <summary>Headers through every way to produce and to read, in each mode on each platform.</summary>
public sealed class MessageHeadersTests
{
    private static readonly DateTimeOffset s_time = new(2026, 3, 4, 5, 6, 7, TimeSpan.Zero);

    public static TheoryData<ProducerMode, bool> Variants => MessageLengthTests.Variants;

    [Theory, MemberData(nameof(Variants))]
    public async Task Bytes_EveryWayToProduce_CarriesHeaders(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using var queue = new MappedFileQueue(Options(store, mode, portable));
        MappedFileProducer producer = queue.Producer;
        byte[] message = Payload.Bytes(21, 1);
        ReadOnlyMemory<byte>[] batch = [message, ReadOnlyMemory<byte>.Empty, Payload.Bytes(300, 2)];
        List<(byte[] Bytes, MessageHeaders? Headers)> expected = [];
        for (int number = 0; number < 200; number++)
        {
            MessageHeaders headers = Make(number);
            var options = new ProduceOptions { Headers = headers };
            producer.Produce(message, options);
            producer.Produce(message);
            producer.Produce(Pieces.Join(message.AsMemory(..5), message.AsMemory(5..)), options);
            producer.ProduceJoined([message.AsMemory(..1), message.AsMemory(1..)], options);
            producer.ProduceJoined(message.AsSpan(..9), message.AsSpan(9..), options: options);
            Claim(producer, message, headers);
            await producer.ProduceAsync(message, options);
            expected.AddRange([
                (message, headers), (message, null), (message, headers), (message, headers), (message, headers),
                (message, headers), (message, headers)]);

            producer.ProduceBatch(batch, options);
            await producer.ProduceBatchAsync(batch, options);
            expected.AddRange(Enumerable.Repeat(batch.Select(bytes => (bytes.ToArray(), (MessageHeaders?)headers)), 2)
                .SelectMany(pair => pair));
            MessageHeaders?[] each = [null, Make(number + 1), Make(number + 2)];
            producer.ProduceBatch(batch, each);
            expected.AddRange(batch.Select((bytes, i) => (bytes.ToArray(), each[i])));
        }

        AssertReads(queue, expected);
        using MappedFileReader reader = MappedFileReader.Open(store.StorePath);
        foreach ((byte[] bytes, MessageHeaders? headers) in expected)
        {
            Assert.True(reader.TryRead(out ReadOnlySpan<byte> read));
            Assert.Equal(bytes, read);
            Assert.Equal(headers, reader.Headers);
            Assert.Equal(headers is null, reader.HeadersInPlace.IsEmpty);
        }
    }

    [Theory, MemberData(nameof(Variants))]
    public async Task Structs_EveryWayToProduce_CarriesHeaders(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using var queue = new MappedFileQueue<Tick>(Options(store, mode, portable));
        MappedFileProducer<Tick> producer = queue.Producer;
        MappedFileConsumer<Tick> consumer = queue.Consumer;
        List<MessageHeaders?> expected = [];
        long next = 0;
        Tick Next() => Tick.Make(1, next++);
        for (int number = 0; number < 200; number++)
        {
            MessageHeaders headers = Make(number);
            var options = new ProduceOptions { Headers = headers };
            producer.Produce(Next(), options);
            producer.Produce(Next());
            await producer.ProduceAsync(Next(), options);
            producer.ProduceBatch([Next(), Next()], options);
            await producer.ProduceBatchAsync(new[] { Next(), Next() }, options);
            producer.ProduceBatch([Next(), Next(), Next()], [null, headers, Make(number + 1)]);
            expected.AddRange([
                headers, null, headers, headers, headers, headers, headers, null, headers, Make(number + 1)]);
        }

        for (int i = 0; i < expected.Count; i++)
        {
            consumer.Consume(out Tick tick);
            Assert.Equal(i, tick.Verify());
            Assert.Equal(expected[i], consumer.Headers);
            Assert.Equal(expected[i]?.Time, consumer.HeadersInPlace.Time);
            Assert.Equal(i, consumer.Peek().Verify());
            consumer.Commit();
            Assert.Null(consumer.Headers);
            Assert.True(consumer.HeadersInPlace.IsEmpty);
        }

        consumer.SeekToStart();
        var taken = new Tick[7];
        for (long count = 0; count < next;)
        {
            int found = consumer.ConsumeBatch(taken);
            for (int i = 0; i < found; i++)
                Assert.Equal(count++, taken[i].Verify());
            consumer.Commit();
        }

        using MappedFileReader<Tick> reader = MappedFileReader<Tick>.Open(store.StorePath);
        foreach (MessageHeaders? headers in expected)
        {
            Assert.True(reader.TryRead(out Tick _));
            Assert.Equal(headers, reader.Headers);
        }
    }

    /// <summary>
    /// Two of the ways lie outside a producer's common path: consumers that are too far behind, and a flush that is waited for.
    /// </summary>
    [Theory, MemberData(nameof(Variants))]
    public async Task Produce_WaitsForConsumersAndFlush_CarriesHeaders(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        MappedFileQueueOptions options = Options(store, mode, portable);
        options.MaxUnconsumedBytes = 200;
        options.Durability = DurabilityLevel.Group;
        using var queue = new MappedFileQueue(options);
        MappedFileConsumer consumer = queue.Consumer;
        var headers = new ProduceOptions { Headers = Make(3) };
        long offset = queue.Producer.Produce(new byte[100], headers);
        Assert.True(queue.Producer.ConfirmedOffset > offset);
        ReadOnlyMemory<byte>[] batch = [new byte[60], new byte[60]];

        Task<long>[] later =
        [
            queue.Producer.ProduceAsync(new byte[100], headers).AsTask(),
            queue.Producer.ProduceBatchAsync(batch, headers).AsTask(),
        ];
        for (int i = 0; i < 4; i++)
        {
            Assert.Equal(i < 2 ? 100 : 60, (await consumer.ConsumeAsync()).Length);
            Assert.Equal(Make(3), consumer.Headers);
            consumer.Commit();
        }

        long last = (await Task.WhenAll(later)).Max();
        Assert.True(queue.Producer.ConfirmedOffset > last);
    }

    [Theory, MemberData(nameof(Variants))]
    public void Stamps_MessagesWithoutTheirOwn_GetTimeAndTrace(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        var clock = new ManualTime(s_time);
        MappedFileQueueOptions options = Options(store, mode, portable);
        options.StampTime = options.StampTraceContext = true;
        options.TimeProvider = clock;
        using var queue = new MappedFileQueue(options);
        MappedFileConsumer consumer = queue.Consumer;
        using var activity = new Activity("test");
        activity.SetIdFormat(ActivityIdFormat.W3C);
        activity.Start();
        MappedFileProducer producer = queue.Producer;
        producer.Produce("1"u8);
        Assert.True(producer.TryProduce("2"u8));
        producer.ProduceBatch([new byte[1], new byte[1]]);
        producer.Produce(1, 0, static (span, _) => span.Clear());
        producer.Produce("text", Utf8MessageSerializer.Instance);
        activity.Stop();
        for (int i = 0; i < 6; i++)
        {
            consumer.Consume();
            Assert.Equal(s_time, consumer.Headers!.Time);
            Assert.Equal(activity.SpanId, consumer.Headers.TraceContext.SpanId);
            Assert.True(consumer.Headers.TraceContext.IsRemote);
            consumer.Commit();
        }

        // No activity; and what the caller gives counts.
        producer.Produce("3"u8);
        consumer.Consume();
        Assert.Equal(new MessageHeaders { Time = s_time }, consumer.Headers);
        consumer.Commit();
        producer.Produce("4"u8, new ProduceOptions { Headers = Make(5) });
        consumer.Consume();
        Assert.Equal(Make(5), consumer.Headers);
    }

    /// <summary>The system's clock is read once a tick; the stamp must still follow it.</summary>
    [Fact]
    public void StampTime_SystemClock_FollowsIt()
    {
        using TempStore store = new();
        using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = store.StorePath, StampTime = true });
        for (int i = 0; i < 20; i++)
        {
            DateTimeOffset before = DateTimeOffset.UtcNow.AddMilliseconds(-500);
            queue.Producer.Produce([]);
            queue.Consumer.Consume();
            Assert.InRange(queue.Consumer.Headers!.Time!.Value, before, DateTimeOffset.UtcNow);
            queue.Consumer.Commit();
            Thread.Sleep(50);
        }
    }

    [Theory, MemberData(nameof(Variants))]
    public void Produce_LongestMessageWithHeaders_FitsAndOneMoreIsRefused(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using var queue = new MappedFileQueue(Options(store, mode, portable));
        MappedFileProducer producer = queue.Producer;
        var headers = new MessageHeaders { Key = new byte[9] };
        int limit = producer.MessageLengthMax - 24;
        var options = new ProduceOptions { Headers = headers };
        Assert.Throws<ArgumentOutOfRangeException>(() => producer.Produce(new byte[limit + 1], options));
        Assert.Throws<ArgumentOutOfRangeException>(() => producer.DangerousClaim(limit + 1, headers));
        Assert.Throws<ArgumentOutOfRangeException>(() => producer.ProduceBatch([new byte[limit + 1]], options));
        Assert.Throws<ArgumentOutOfRangeException>(() => producer.DangerousClaim(int.MaxValue, headers));
        Assert.Throws<ArgumentException>("headers", () => producer.ProduceBatch([new byte[1]], [headers, headers]));
        producer.Produce(new byte[limit], options);
        Claim(producer, new byte[limit], headers);
        producer.ProduceBatch([new byte[limit]], options);

        AssertReads(queue, [.. Enumerable.Repeat((new byte[limit], (MessageHeaders?)headers), 3)]);
    }

    /// <summary>A claim that is published shorter than it was opened, and one that is abandoned.</summary>
    [Theory, MemberData(nameof(Variants))]
    public void Claim_ShortAndAbandoned_KeepsHeadersAndPlace(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using var queue = new MappedFileQueue(Options(store, mode, portable));
        for (int length = 0; length <= 40; length++)
        {
            queue.Producer.DangerousClaim(40, Make(1)).Dispose();
            using MessageClaim claim = queue.Producer.DangerousClaim(40, Make(length));
            claim.Span[..length].Fill((byte)length);
            claim.Publish(length);
            // A claim without headers after one with them.
            Claim(queue.Producer, [7], null);
        }

        AssertReads(queue, [.. Enumerable.Range(0, 41).SelectMany(length => new (byte[], MessageHeaders?)[]
        {
            (Enumerable.Repeat((byte)length, length).ToArray(), Make(length)), ([7], null),
        })]);
    }

    [Fact]
    public void Files_MessagesWithHeaders_AreReadByAnIndependentReader()
    {
        using TempStore store = new();
        using (var queue = new MappedFileQueue(Options(store, ProducerMode.Shared, portable: false)))
        {
            queue.Producer.Produce("1"u8, new ProduceOptions { Headers = Make(4) });
            queue.Producer.ProduceBatch([new byte[2], new byte[3]], [Make(5), null]);
        }

        byte[] id = StoreMeta.Parse(File.ReadAllBytes(store.PathOf("queue.meta")), "").LogId.ToByteArray();
        FormatTwo.Frame[] frames = [.. FormatTwo.Walk(File.ReadAllBytes(store.PathOf("commitlog", $"{0:D20}.log")), 0, id)];
        Assert.Equal([1, 2, 3], frames.Select(frame => frame.Payload.Length));
        Assert.Equal([2, 4, 2], frames.Select(frame => frame.State));
        Assert.Null(frames[2].Block);
        for (int i = 0; i < 2; i++)
        {
            MessageHeaders headers = Make(4 + i);
            FormatTwo.Block block = frames[i].Block!;
            Assert.Equal(headers.Time!.Value.UtcTicks - DateTimeOffset.UnixEpoch.Ticks, block.Time);
            Assert.Equal(headers.Key, block.Key);
            Assert.Equal((headers.ProducerId, headers.Sequence, true), (block.ProducerId, block.Sequence, block.IsCarried));
        }
    }

    /// <summary>
    /// A frame whose checksum is right and whose block is not: a hostile or broken writer. It is damage, named as such, and a
    /// policy steps over it.
    /// </summary>
    [Theory]
    [InlineData(0, 0)]
    [InlineData(0, 18)]
    [InlineData(2, 0xFF)]
    [InlineData(5, 0xFF)]
    [InlineData(7, 0xFF)]
    public void Consume_BlockThatCannotBe_IsDamage(int at, byte value)
    {
        using TempStore store = new();
        MappedFileQueueOptions options = Options(store, ProducerMode.Exclusive, portable: false);
        long next;
        using (var queue = new MappedFileQueue(options))
        {
            queue.Producer.Produce(new byte[100], new ProduceOptions { Headers = Make(1) });
            next = queue.Producer.Produce("next"u8);
        }

        string path = store.PathOf("commitlog", $"{0:D20}.log");
        byte[] segment = File.ReadAllBytes(path);
        Guid id = StoreMeta.Parse(File.ReadAllBytes(store.PathOf("queue.meta")), "").LogId;
        ulong header = BinaryPrimitives.ReadUInt64LittleEndian(segment);
        segment[8 + at] = value;
        ulong changed = FrameHeader.Make((uint)header, FormatTwo.FrameCrc(
            id.ToByteArray(), 0, (uint)header, segment.AsSpan(8, FrameHeader.Length(header))));
        BinaryPrimitives.WriteUInt64LittleEndian(segment, changed);
        File.WriteAllBytes(path, segment);

        using (var queue = new MappedFileQueue(options))
            Assert.Throws<QueueCorruptException>(() => queue.Consumer.Consume().Length);
        options.Corruption = CorruptionPolicy.SkipMessage;
        using (var queue = new MappedFileQueue(options))
        {
            Assert.Equal("next"u8, queue.Consumer.Consume());
            Assert.Equal(next, queue.Consumer.MessageOffset);
        }
    }

    /// <summary>Members of a group see headers too, and a dead letter has those of its message.</summary>
    [Theory, InlineData(false), InlineData(true)]
    public void Group_MessagesWithHeaders_ShowThemAndLettersKeepThem(bool portable)
    {
        using TempStore store = new();
        string letters = store.StorePath + "-letters";
        using (var queue = new MappedFileQueue(Options(store, ProducerMode.Shared, portable)))
        {
            using MappedFileGroupMember member = queue.OpenGroupMember("workers", new GroupOptions { DeadLetterPath = letters });
            for (int i = 0; i < 40; i++)
                queue.Producer.Produce(Payload.Bytes(30, i), new ProduceOptions { Headers = i % 4 == 0 ? null : Make(i) });
            Assert.Equal(Payload.Bytes(30, 0), member.Consume());
            Assert.Null(member.Headers);
            Assert.Equal(Payload.Bytes(30, 1), member.Consume());
            Assert.Equal(Make(1), member.Headers);
            member.Reject(member.MessageOffset, deadLetter: true, reason: "No.");
            int next = 2;
            while (next < 40)
            {
                foreach (ReadOnlySpan<byte> message in member.ConsumeBatch(7))
                {
                    Assert.Equal(Payload.Bytes(30, next), message);
                    Assert.Equal(next % 4 == 0 ? null : Make(next), member.Headers);
                    Assert.Equal(next % 4 == 0, member.HeadersInPlace.IsEmpty);
                    next++;
                }
            }

            member.Acknowledge();
        }

        using MappedFileReader reader = MappedFileReader.Open(letters);
        Assert.True(reader.TryRead(out ReadOnlySpan<byte> letter));
        Assert.Equal(Make(1), reader.Headers);
        Assert.Equal(Payload.Bytes(30, 1), DeadLetter.Parse(letter).Message);
        Assert.False(reader.TryRead(out _));
    }

    /// <summary>
    /// A message's own time decides where a search begins, whatever the clock of the flushes says; one without a time counts as
    /// of its flush. The search may begin too early, and never too late.
    /// </summary>
    [Theory, InlineData(true), InlineData(false)]
    public void FindOffset_MessagesHaveTimes_GoesByThem(bool isFlushed)
    {
        using TempStore store = new();
        MappedFileQueueOptions options = Options(store, ProducerMode.Shared, portable: false);
        options.TimeProvider = new ManualTime(s_time.AddYears(-1));
        options.Durability = DurabilityLevel.PageCache;
        using var queue = new MappedFileQueue(options);
        List<long> offsets = [];
        for (int second = 0; second < 500; second++)
        {
            offsets.Add(queue.Producer.Produce(
                new byte[100], new ProduceOptions { Headers = new() { Time = s_time.AddSeconds(second) } }));
        }

        if (isFlushed)
            queue.Flush();

        for (int second = 0; second < 500; second += 7)
        {
            Assert.Equal(offsets[second], queue.FindOffset(s_time.AddSeconds(second)));
            Assert.Equal(offsets[second], queue.FindOffset((long)second));
            Assert.Equal(second, queue.FindNumber(offsets[second]));
        }

        queue.Consumer.Seek(QueueStart.FromTime(s_time.AddSeconds(321.5)));
        queue.Consumer.Consume();
        Assert.Equal(s_time.AddSeconds(322), queue.Consumer.Headers!.Time);
    }

    [Fact]
    public void Headers_WriteAndReadInPlace_AllocateNothing()
    {
        using TempStore store = new();
        MappedFileQueueOptions options = Options(store, ProducerMode.Shared, portable: false);
        options.SegmentSize = 16 << 20;
        options.StampTime = true;
        using var queue = new MappedFileQueue(options);
        using var structs = new MappedFileQueue<Tick>(Options(store, ProducerMode.Shared, false, "structs"));
        var produce = new ProduceOptions { Headers = Make(4) };
        MessageHeaders?[] each = [Make(1), null];
        ReadOnlyMemory<byte>[] batch = [new byte[3], new byte[30]];
        Tick tick = Tick.Make(1, 1);
        long keys = 0;
        AllocationTests.AssertNothing("headers", () =>
        {
            queue.Producer.Produce("message"u8, produce);
            queue.Producer.ProduceBatch(batch, each);
            for (int i = 0; i < 3; i++)
            {
                queue.Consumer.Consume();
                keys += queue.Consumer.HeadersInPlace.Key.Length + queue.Consumer.HeadersInPlace.Time!.Value.Year;
                queue.Consumer.Commit();
            }

            structs.Producer.Produce(tick, produce);
            structs.Consumer.Consume(out Tick _);
            keys += structs.Consumer.HeadersInPlace.Key.Length;
            structs.Consumer.Commit();
        }, 1000);
        Assert.True(keys > 0);
    }

    private static MappedFileQueueOptions Options(TempStore store, ProducerMode mode, bool portable, string? name = null)
    {
        PlatformScope.Use(portable);
        return new MappedFileQueueOptions
        {
            StorePath = name is null ? store.StorePath : store.PathOf("..", name),
            SegmentSize = 16384,
            ProducerMode = mode,
        };
    }

    private static MessageHeaders Make(int number) => new()
    {
        Time = s_time.AddTicks(number),
        Key = Payload.Bytes(1 + (number % 33), number),
        ProducerId = (ulong)(number % 3),
        Sequence = number % 3 == 0 ? 0 : (ulong)number,
    };

    private static void Claim(MappedFileProducer producer, byte[] message, MessageHeaders? headers)
    {
        using MessageClaim claim = producer.DangerousClaim(message.Length, headers);
        message.CopyTo(claim.Span);
        claim.Publish(message.Length);
    }

    private static void AssertReads(MappedFileQueue queue, List<(byte[] Bytes, MessageHeaders? Headers)> expected)
    {
        foreach ((byte[] bytes, MessageHeaders? headers) in expected)
        {
            Assert.Equal(bytes, queue.Consumer.Consume());
            Assert.Equal(headers, queue.Consumer.Headers);
            Assert.Equal(headers?.Key.ToArray() ?? [], queue.Consumer.HeadersInPlace.Key);
            queue.Consumer.Commit();
        }

        Assert.False(queue.Consumer.TryConsume(out _));
        queue.Consumer.SeekToStart();
        int count = 0;
        MessageBatch batch = queue.Consumer.ConsumeBatch();
        while (count < expected.Count && batch.MoveNext())
        {
            Assert.Equal(expected[count].Bytes, batch.Current);
            Assert.Equal(expected[count].Headers, batch.HeadersInPlace.IsEmpty ? null : batch.HeadersInPlace.ToHeaders());
            count++;
        }

        Assert.Equal(expected.Count, count);
    }
}
