using System.Buffers.Binary;
using System.Text;
using System.Text.RegularExpressions;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.RabbitMQ;
using MappedFileQueues.RabbitMQ.Envelopes;

namespace MappedFileQueues.Tests.Bridge;

/// <summary>
/// The body of a broker message: what docs/BRIDGE.md gives as examples was made by another program, from the specification, and
/// is read and written here to the byte; hostile bytes give one kind of exception.
/// </summary>
public sealed partial class EnvelopeTests
{
    private const int Seed = 20231;

    private static readonly Guid s_store = new("00112233-4455-6677-8899-aabbccddeeff");
    private static readonly Guid s_session = new("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0");

    [Fact]
    public void End_ExamplesOfTheSpecification_AreWrittenToTheByte()
    {
        Assert.Equal(Example("marker"), Write(EnvelopeKind.Marker, false, 0, 0, 0));
        Assert.Equal(Example("nothing"), Write(EnvelopeKind.Records, true, 1, 4096, 4096));
        Assert.Equal(Example("two"), Write(EnvelopeKind.Records, true, 3, 4096, 4136, (4096, "hello"), (4112, "")));
    }

    [Fact]
    public void Parse_ExamplesOfTheSpecification_GivesWhatTheyHold()
    {
        StreamEnvelope marker = StreamEnvelope.Parse(Example("marker"));
        Assert.Equal((EnvelopeKind.Marker, s_session), (marker.Kind, marker.Session));

        StreamEnvelope two = StreamEnvelope.Parse(Example("two"));
        Assert.Equal((s_store, 3L, 4096L, 4136L, true), (two.StoreId, two.Epoch, two.From, two.To, two.IsDurable));
        Assert.Equal([(4096, "hello"), (4112, "")], Read(two));

        StreamEnvelope headers = StreamEnvelope.Parse(Example("headers"));
        Assert.Equal([(4136, "data")], Read(headers));
        foreach (EnvelopeRecord record in headers)
            Assert.Equal([1, 2], record.Headers.ToArray());
    }

    /// <summary>The producer's number becomes a carried one: only its own store may believe it.</summary>
    [Fact]
    public void TryAdd_HeaderBlock_GoesAlongAndItsProducerIsMarkedAsCarried()
    {
        var headers = new MessageHeaders { Key = "key"u8.ToArray(), ProducerId = 7, Sequence = 8 };
        byte[] block = new HeaderFields(headers).Write(new byte[HeaderBlock.LengthMax]).ToArray();
        byte[] written = [.. block];
        written[2] = (byte)((written[2] & ~(byte)HeaderField.CarriedProducer) | (byte)HeaderField.Producer);
        EnvelopeWriter writer = new(s_store, s_session, 1024, isDurable: false);
        writer.Begin(0);
        Assert.True(writer.TryAdd(0, "with"u8, written));
        Assert.True(writer.TryAdd(64, "without"u8));

        List<MessageHeaders?> read = [];
        StreamEnvelope envelope = StreamEnvelope.Parse(writer.End(EnvelopeKind.Records, 0, 128).ToArray());
        foreach (EnvelopeRecord record in envelope)
        {
            read.Add(record.ToHeaders());
            Assert.Equal(read.Count == 1 ? block : [], record.Headers.ToArray());
        }

        Assert.Equal([headers, null], read);
        Assert.Equal([(0, "with"), (64, "without")], Read(envelope));
    }

    /// <summary>Every example with each byte changed, cut at each place, and with bytes behind it.</summary>
    [Fact]
    public void Parse_DamagedExamples_ThrowsTheOneException()
    {
        foreach (string name in new[] { "marker", "nothing", "two", "headers" })
        {
            byte[] right = Example(name);
            for (int place = 0; place < right.Length; place++)
            {
                byte[] wrong = [.. right];
                wrong[place] ^= 0x55;
                // The flags and the kind are before what the checksum covers.
                if (place is not (5 or 7))
                    Assert.Throws<EnvelopeFormatException>(() => StreamEnvelope.Parse(wrong));
                Assert.Throws<EnvelopeFormatException>(() => StreamEnvelope.Parse(right.AsMemory(0, place)));
            }

            Assert.Throws<EnvelopeFormatException>(() => StreamEnvelope.Parse(new byte[] { 1 }.Prepend((byte)0).ToArray()));
        }
    }

    /// <summary>Bytes that nobody has written, with a checksum that is right, so that the checks behind it are reached.</summary>
    [Fact]
    public void Parse_HostileBytesWithARightChecksum_ThrowsOrHoldsWhatItPromises()
    {
        Random random = new(Seed);
        byte[][] examples = [Example("two"), Example("headers")];
        int accepted = 0;
        for (int round = 0; round < 200_000; round++)
        {
            byte[] bytes = [.. examples[random.Next(examples.Length)]];
            int changes = random.Next(1, 6);
            for (int change = 0; change < changes; change++)
                bytes[random.Next(12, bytes.Length)] = (byte)random.Next(256);
            if (random.Next(3) == 0)
                bytes = bytes[..random.Next(72, bytes.Length)];
            Seal(bytes);
            try
            {
                StreamEnvelope envelope = StreamEnvelope.Parse(bytes);
                long last = envelope.From - 1;
                int count = 0;
                foreach (EnvelopeRecord record in envelope)
                {
                    Assert.InRange(record.Offset, last + 1, envelope.To - 1);
                    last = record.Offset;
                    count++;
                }

                Assert.Equal(envelope.Count, count);
                accepted++;
            }
            catch (EnvelopeFormatException)
            {
                // As it should.
            }
        }

        Assert.InRange(accepted, 1, 199_999);
    }

    /// <summary>
    /// Bytes of any origin: random ones, examples that are cut, lengthened, mixed and changed anywhere, with the checksum right
    /// or as it comes. The counts and lengths in them are often huge; nothing is allocated or walked because of them.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    [Trait("Category", "Slow")]
    public void Parse_AnyBytes_ThrowsTheOneExceptionOrIsWhole(bool isSealed)
    {
        Random random = new(Seed + (isSealed ? 1 : 0));
        byte[][] examples = [Example("marker"), Example("nothing"), Example("two"), Example("headers")];
        (int rejected, int accepted) = (0, 0);
        for (int round = 0; round < 300_000; round++)
        {
            byte[] bytes = Hostile(random, examples);
            if (isSealed && bytes.Length >= 12)
                Seal(bytes);
            long before = GC.GetAllocatedBytesForCurrentThread();
            try
            {
                StreamEnvelope envelope = StreamEnvelope.Parse(bytes);
                int left = bytes.Length - EnvelopeLayout.HeaderLength;
                foreach (EnvelopeRecord record in envelope)
                    left -= EnvelopeLayout.RecordHeaderLength + record.Headers.Length + record.Payload.Length;
                Assert.True(left >= 0, $"More than there is: round={round}.");
                accepted++;
            }
            catch (EnvelopeFormatException)
            {
                rejected++;
            }
            catch (Exception error)
            {
                Assert.Fail($"round={round}, bytes={Convert.ToHexString(bytes)}: {error}");
            }

            // The exception and its text, and nothing by the numbers in the bytes.
            Assert.InRange(GC.GetAllocatedBytesForCurrentThread() - before, 0, 64 * 1024);
        }

        Assert.True(rejected > 1000 && accepted > 0, $"rejected={rejected}, accepted={accepted}");
    }

    /// <summary>
    /// One forged envelope said "up to 2^63 - 8" and held nothing: a fetcher left out every later message of that store.
    /// </summary>
    [Theory]
    [InlineData(4096, long.MaxValue - 7, false)]
    [InlineData(4096, 4096 + (1L << 40) + 8, false)]
    [InlineData(4096, 4100, false)]
    [InlineData(4096, 4096 + (1L << 40), true)]
    public void Parse_RangeThatRecordsDoNotExplain_IsRefused(long from, long to, bool isRight)
    {
        byte[] bytes = Write(EnvelopeKind.Records, true, 1, from, to);
        if (isRight)
            Assert.Equal(to, StreamEnvelope.Parse(bytes).To);
        else
            Assert.Throws<EnvelopeFormatException>(() => StreamEnvelope.Parse(bytes));
    }

    [Fact]
    public void TryAdd_EnvelopeIsFull_BelongsToTheNext()
    {
        EnvelopeWriter writer = new(s_store, s_session, 100, isDurable: true);
        writer.Begin(0);
        Assert.True(writer.TryAdd(0, new byte[80]));
        Assert.False(writer.TryAdd(88, new byte[80]));
        writer.Begin(88);
        Assert.True(writer.TryAdd(88, new byte[5000]));
        Assert.False(writer.TryAdd(6000, []));
        Assert.Equal(1, StreamEnvelope.Parse(writer.End(EnvelopeKind.Records, 1, 6000)).Count);
    }

    [Fact]
    public void TryAdd_GapOf32GiB_NeedsAnEmptyEnvelopeBefore()
    {
        EnvelopeWriter writer = new(s_store, s_session, 100, isDurable: true);
        writer.Begin(0);
        Assert.False(writer.TryAdd(8L << 32, [1]));
        Assert.True(writer.TryAdd((8L << 32) - 8, [1]));
    }

    private static byte[] Write(
        EnvelopeKind kind, bool isDurable, long epoch, long from, long to, params (long Offset, string Text)[] records)
    {
        EnvelopeWriter writer = new(s_store, s_session, 1000, isDurable);
        writer.Begin(from);
        foreach ((long offset, string text) in records)
            Assert.True(writer.TryAdd(offset, Encoding.UTF8.GetBytes(text)));
        return writer.End(kind, epoch, to).ToArray();
    }

    private static List<(long Offset, string Text)> Read(StreamEnvelope envelope)
    {
        List<(long, string)> records = [];
        foreach (EnvelopeRecord record in envelope)
            records.Add((record.Offset, Encoding.UTF8.GetString(record.Payload.Span)));
        return records;
    }

    private static byte[] Hostile(Random random, byte[][] examples)
    {
        byte[] bytes;
        if (random.Next(4) == 0)
        {
            bytes = new byte[random.Next(0, 300)];
            random.NextBytes(bytes);
            // Else nothing is looked at but the first bytes.
            if (bytes.Length > 7 && random.Next(4) > 0)
                Example(examples, random).AsSpan(0, random.Next(4, 8)).CopyTo(bytes);
            return bytes;
        }

        bytes = [.. Example(examples, random), .. Example(examples, random).AsSpan(random.Next(0, 73))];
        bytes = bytes[..random.Next(random.Next(bytes.Length), bytes.Length + 1)];
        for (int change = random.Next(4); change > 0 && bytes.Length >= 4; change--)
        {
            int place = random.Next(bytes.Length - 3);
            uint[] numbers =
                [0, 1, int.MaxValue, 1u << 31, uint.MaxValue, uint.MaxValue - 7, (uint)bytes.Length, (uint)random.Next()];
            if (random.Next(2) == 0)
                bytes[place] ^= (byte)(1 << random.Next(8));
            else
                BinaryPrimitives.WriteUInt32LittleEndian(bytes.AsSpan(place & ~3), numbers[random.Next(numbers.Length)]);
        }

        return bytes;
    }

    private static byte[] Example(byte[][] examples, Random random) => examples[random.Next(examples.Length)];

    private static void Seal(byte[] bytes) =>
        BinaryPrimitives.WriteUInt32LittleEndian(bytes.AsSpan(8), EnvelopeLayout.ComputeChecksum(bytes.AsSpan(12)));

    private static byte[] Example(string name)
    {
        string page = File.ReadAllText(Repository.PathOf("docs/BRIDGE.md"));
        string hex = Examples().Matches(page).Single(match => match.Groups[1].Value == name).Groups[2].Value;
        return Convert.FromHexString(string.Concat(hex.Where(char.IsAsciiHexDigit)));
    }

    [GeneratedRegex(@"^```hex (\w+)\n(.*?)^```", RegexOptions.Multiline | RegexOptions.Singleline)]
    private static partial Regex Examples();
}
