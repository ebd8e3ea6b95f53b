using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Appending;

/// <summary>
/// An Exclusive message that is given up leaves its bytes beyond the tail. AdjustOffset put padding over the first of them, and
/// what stood behind it became the log: damage for whoever checks, messages that nobody published for whoever does not.
/// </summary>
[Trait("Category", "Slow")]
public sealed class AdjustOffsetDirtTests : IDisposable
{
    private const int Segment = 1 << 20;

    private readonly CrashStore _store = new(Segment, ProducerMode.Exclusive) { Checksum = ChecksumMode.None };

    public void Dispose() => _store.Dispose();

    [Theory]
    [InlineData(64)]
    [InlineData(4096)]
    [InlineData(Segment)]
    [InlineData(Segment + 64)]
    public void AdjustOffset_BehindAnAbandonedMessage_NothingOfItIsSeen(long offset)
    {
        using (MappedFileQueue queue = _store.Open())
        {
            using MappedFileProducer producer = queue.OpenProducer();
            Assert.Throws<InvalidDataException>(() => producer.Produce(8000, 0, (span, _) => FillAndThrow(span)));
            producer.AdjustOffset(offset);
            Assert.Equal(offset, producer.Offset);
            Assert.Equal(offset, producer.Produce(CrashMessage.Make("first", 64)));
            Assert.Equal(["first"], _store.Peek());
        }

        _store.ExpectHealthy(["first"]);
    }

    /// <summary>Killed right behind the padding: the next opener found frames there, or refused producers for good.</summary>
    [Theory]
    [InlineData(64)]
    [InlineData(Segment + 64)]
    public void AdjustOffset_BehindAnAbandonedMessageAndKilled_NothingOfItIsSeen(long offset)
    {
        using (PeerAgent child = _store.StartAttached())
        {
            child.Send("hold text=never size=8000");
            child.NextLine(line => line == "held");
            child.Ask("abandon");
            child.Ask($"adjust offset={offset}");
            child.Kill();
        }

        _store.ExpectHealthy([]);
    }

    /// <summary>It threw at the end, when the padding stood there and the message was published behind it.</summary>
    [Theory]
    [InlineData(ProducerMode.Exclusive)]
    [InlineData(ProducerMode.Shared)]
    public void AdjustOffset_UnderAnOpenClaim_IsRefusedAndChangesNothing(ProducerMode mode)
    {
        using var store = new CrashStore(Segment, mode);
        using (MappedFileQueue queue = store.Open())
        {
            using MappedFileProducer producer = queue.OpenProducer();
            long published = producer.Produce(8000, 0, (span, _) =>
            {
                span.Fill(0x21);
                byte[] before = ReadLog(store);
                foreach (long offset in new long[] { 0, 64, 16_000, Segment, 10L * Segment })
                    Assert.Throws<InvalidOperationException>(() => producer.AdjustOffset(offset));
                Assert.Equal(before, ReadLog(store));
                Assert.Single(Directory.GetFiles(Path.Combine(store.Path, "commitlog"), "0*00.log"));
            });
            Assert.Equal(0, published);
            using MappedFileConsumer consumer = queue.OpenConsumer("c");
            Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message));
            Assert.Equal(8000, message.Length);
        }
    }

    private static byte[] ReadLog(CrashStore store) =>
        File.ReadAllBytes(Path.Combine(store.Path, "commitlog", "00000000000000000000.log"));

    /// <summary>Each word of it is the header of a message of 8 bytes without checksum.</summary>
    private static void FillAndThrow(Span<byte> span)
    {
        for (int i = 0; i + 8 <= span.Length; i += 8)
            BitConverter.TryWriteBytes(span[i..], 0x5000_0008UL);
        throw new InvalidDataException("given up");
    }
}
