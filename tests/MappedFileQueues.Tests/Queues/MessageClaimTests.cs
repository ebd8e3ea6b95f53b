using System.Buffers;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Queues;

/// <summary>Filling in place: claims, callbacks, serializers, and what they may not do.</summary>
[Trait("Category", "Slow")]
public sealed class MessageClaimTests
{
    public static TheoryData<ProducerMode, bool> Variants => MessageLengthTests.Variants;

    [Theory, MemberData(nameof(Variants))]
    public void Claim_PublishAllShorterAndNothing_OnlyThatIsRead(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        List<byte[]> expected = [];
        for (int i = 0; i < 200; i++)
        {
            int length = i * 5;
            using MessageClaim claim = queue.Producer.DangerousClaim(length);
            Payload.Bytes(length, i).CopyTo(claim.Span);
            if (i % 3 == 0)
                continue;
            int published = i % 3 == 1 ? length : length / 2;
            expected.Add(claim.Span[..published].ToArray());
            claim.Publish(published);
        }

        queue.Producer.Produce([7]);
        expected.Add([7]);
        Assert.Equal(expected, ReadAll(queue));
    }

    [Theory, MemberData(nameof(Variants))]
    public void Claim_Ended_CannotBeEndedAgainByACopy(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        MessageClaim claim = queue.Producer.DangerousClaim(8);
        MessageClaim copy = claim;
        claim.Span.Fill(1);
        claim.Publish(8);
        MessageClaim other = queue.Producer.DangerousClaim(8);
        other.Span.Fill(2);

        Assert.True(ThrowsOnPublish<InvalidOperationException>(ref claim));
        Assert.True(ThrowsOnPublish<InvalidOperationException>(ref copy));
        copy.Dispose();
        claim.Dispose();
        other.Publish(8);

        queue.Producer.Produce([3]);
        Assert.Equal([[1, 1, 1, 1, 1, 1, 1, 1], [2, 2, 2, 2, 2, 2, 2, 2], [3]], ReadAll(queue));
    }

    [Theory, MemberData(nameof(Variants))]
    public void Claim_LengthOutOfRange_RefusedAndStillOpen(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        MessageClaim claim = queue.Producer.DangerousClaim(4);
        Assert.True(ThrowsOnPublish<ArgumentOutOfRangeException>(ref claim, 5));
        Assert.True(ThrowsOnPublish<ArgumentOutOfRangeException>(ref claim, -1));
        claim.Span.Fill(4);
        claim.Publish(4);

        Assert.Equal([[4, 4, 4, 4]], ReadAll(queue));
    }

    [Theory, MemberData(nameof(Variants))]
    public void Claim_Open_OtherCallsOfThisThreadThrowInsteadOfWaitingForThemselves(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        queue.Producer.Produce([1]);
        MappedFileConsumer consumer = queue.Consumer;
        Assert.Equal([1], consumer.Consume().ToArray());
        consumer.Commit();
        using (MessageClaim claim = queue.Producer.DangerousClaim(16))
        {
            Assert.Throws<InvalidOperationException>(() => queue.Producer.Produce([2]));
            Assert.Throws<InvalidOperationException>(() => queue.Producer.DangerousClaim(1));
            Assert.Throws<InvalidOperationException>(() => queue.Producer.ProduceBatch([new byte[] { 1 }]));
            Assert.Throws<InvalidOperationException>(() => queue.Flush());
            Assert.Throws<InvalidOperationException>(() => consumer.Consume());
            Assert.Equal(16, claim.Span.Length);
        }

        queue.Producer.Produce([2]);
        Assert.Equal([2], consumer.Consume().ToArray());
        queue.Flush();
    }

    [Theory, MemberData(nameof(Variants))]
    public void Claim_OpenOnDispose_OwnIsAbandonedOthersIsFenced(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using (MappedFileQueue queue = Open(store, mode, portable))
        {
            queue.Producer.Produce([1]);
            MessageClaim own = queue.Producer.DangerousClaim(64);
            own.Span.Fill(0xEE);
            queue.Producer.Dispose();
            Assert.True(ThrowsOnPublish<ProducerFencedException>(ref own));
        }

        using ManualResetEventSlim claimed = new();
        using ManualResetEventSlim disposed = new();
        BackgroundCall claiming;
        using (MappedFileQueue queue = Open(store, mode, portable))
        {
            MappedFileProducer producer = queue.Producer;
            claiming = BackgroundCall.Start(() =>
            {
                MessageClaim claim = producer.DangerousClaim(64);
                claim.Span.Fill(0xDD);
                claimed.Set();
                disposed.Wait();
                // Late stores land in padding, and the mapping is still there for them.
                claim.Span.Fill(0xCC);
                claim.Publish(64);
            });
            claimed.Wait();
        }

        using MappedFileQueue next = Open(store, mode, portable);
        next.Producer.Produce([2]);
        disposed.Set();
        Assert.IsType<ProducerFencedException>(claiming.JoinSilently());
        next.Producer.Produce([3]);
        Assert.Equal([[1], [2], [3]], ReadAll(next));
    }

    [Theory, MemberData(nameof(Variants))]
    public void Claim_OpenInShared_ShowsInInfoAndStopsReaders(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        using (MessageClaim claim = queue.Producer.DangerousClaim(24))
        {
            IReadOnlyList<MappedFileClaimInfo> open = queue.GetInfo().OpenClaims;
            if (mode == ProducerMode.Shared)
            {
                MappedFileClaimInfo info = Assert.Single(open);
                Assert.Equal((0, 24, Environment.ProcessId), (info.Offset, info.Length, info.ProcessId));
                BackgroundCall.Start(() => queue.Producer.Produce([5])).Join();
                BackgroundCall.Start(() => Assert.False(queue.Consumer.TryConsume(out _))).Join();
            }

            claim.Publish(0);
        }

        Assert.Empty(queue.Consumer.Consume().ToArray());
        Assert.Empty(queue.GetInfo().OpenClaims);
    }

    [Theory, MemberData(nameof(Variants))]
    public void Fill_InPlaceAndThrowing_PublishedAndAbandoned(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        for (int i = 0; i < 100; i++)
        {
            queue.Producer.Produce(i, i, static (span, seed) => Payload.Bytes(span.Length, seed).CopyTo(span));
            Assert.Throws<FormatException>(() => queue.Producer.Produce(300, i, static (span, _) =>
            {
                span.Fill(0xFF);
                throw new FormatException();
            }));
        }

        Assert.Equal(Enumerable.Range(0, 100).Select(i => Payload.Bytes(i, i)), ReadAll(queue));
        Assert.Throws<ArgumentOutOfRangeException>(() => queue.Producer.Produce(-1, 0, static (_, _) => { }));
    }

    [Theory, MemberData(nameof(Variants))]
    public void Serializers_OldBufferedNestedAndThrowing_WorkAndLeaveTheLogAsItWas(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        var buffered = new NestingSerializer(queue.Producer);
        queue.Producer.Produce("old", new OldSerializer());
        queue.Producer.Produce("outer", buffered);
        Assert.Throws<FormatException>(() => queue.Producer.Produce("throw", buffered));
        queue.Producer.Produce("after", buffered);

        Assert.Equal(["old", "inner", "outer", "inner", "after"], ReadAll(queue).Select(bytes => Utf8(bytes)));
        queue.Consumer.SeekToStart();
        Assert.Throws<FormatException>(() => queue.Consumer.Consume(new ThrowingDeserializer()));
        queue.Consumer.Commit();
        Assert.Equal([(byte)'i', (byte)'n', (byte)'n', (byte)'e', (byte)'r'], queue.Consumer.Consume());
    }

    [Theory, MemberData(nameof(Variants))]
    public void ProduceBatch_MemoryManagerThrows_NothingIsSeenAndTheNextWorks(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        queue.Producer.Produce([1]);
        using var hostile = new HostileMemory();
        ReadOnlyMemory<byte>[] messages = [new byte[] { 8, 8 }, hostile.Memory, new byte[] { 9, 9 }];
        hostile.Throws = true;

        Assert.Throws<FormatException>(() => queue.Producer.ProduceBatch(messages));
        queue.Producer.Produce([2]);

        Assert.Equal([[1], [2]], ReadAll(queue));
    }

    [Theory, MemberData(nameof(Variants))]
    public void AdjustOffset_InnerHeaderOfAnAbandonedBatch_Refused(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        // A whole message with header and all, as the payload of another: it looks right, but nobody may enter there.
        queue.Producer.Produce(Payload.Bytes(24, 1));
        byte[] first = File.ReadAllBytes(store.PathOf("commitlog", "00000000000000000000.log"))[..32];
        long offset = queue.Producer.Produce(first);
        using (MessageClaim claim = queue.Producer.DangerousClaim(32))
            first.CopyTo(claim.Span);
        queue.Producer.Produce([1]);

        Assert.Throws<OffsetOutOfRangeException>(() => queue.Consumer.AdjustOffset(offset + 8));
        Assert.Throws<OffsetOutOfRangeException>(() => queue.Consumer.AdjustOffset(offset + 48));
        queue.Consumer.AdjustOffset(offset);
        Assert.Equal(first, queue.Consumer.Consume());
    }

    private static string Utf8(byte[] bytes) => System.Text.Encoding.UTF8.GetString(bytes);

    private static bool ThrowsOnPublish<T>(ref MessageClaim claim, int length = 0)
        where T : Exception
    {
        try
        {
            claim.Publish(length);
            return false;
        }
        catch (T)
        {
            return true;
        }
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

    private static MappedFileQueue Open(TempStore store, ProducerMode mode, bool portable)
    {
        PlatformScope.Use(portable);
        return new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            ProducerMode = mode,
            SegmentSize = 4096,
        });
    }

    private sealed class OldSerializer : IMessageSerializer<string>
    {
        public ReadOnlySpan<byte> Serialize(string message) => System.Text.Encoding.UTF8.GetBytes(message);
    }

    /// <summary>Produces another message while it serializes one, and throws when told so.</summary>
    private sealed class NestingSerializer(MappedFileProducer producer) : IBufferedMessageSerializer<string>
    {
        public ReadOnlySpan<byte> Serialize(string message) => throw new NotSupportedException();

        public void Serialize(string message, IBufferWriter<byte> destination)
        {
            destination.Write(System.Text.Encoding.UTF8.GetBytes(message));
            if (message == "throw")
                throw new FormatException();
            if (message != "inner")
                producer.Produce("inner", this);
        }
    }

    private sealed class ThrowingDeserializer : IMessageDeserializer<string>
    {
        public string Deserialize(ReadOnlySpan<byte> buffer) => throw new FormatException();
    }

    private sealed class HostileMemory : MemoryManager<byte>
    {
        public bool Throws { get; set; }

        public override Span<byte> GetSpan() => Throws ? throw new FormatException() : new byte[100];

        public override MemoryHandle Pin(int elementIndex = 0) => throw new NotSupportedException();

        public override void Unpin()
        {
        }

        protected override void Dispose(bool disposing)
        {
        }
    }
}
