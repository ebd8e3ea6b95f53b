using System.Text;
using MappedFileQueues.RabbitMQ;
using MappedFileQueues.RabbitMQ.Connections;
using MappedFileQueues.RabbitMQ.Envelopes;
using MappedFileQueues.RabbitMQ.Fetching;
using RabbitMQ.Client;

namespace MappedFileQueues.Tests.Bridge.Fetching;

/// <summary>Streams that jump or repeat under a fetcher. The broker is left out: it does so when it likes.</summary>
public sealed class StreamHoleTests : IDisposable
{
    private readonly TempStore _temp = new();
    private readonly List<string> _said = [];
    private readonly StreamFetcherOptions _options;
    private int _runs;

    public StreamHoleTests() => _options = new() { StorePath = _temp.StorePath, Stream = "s", Brokers = "amqp://host" };

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// The first envelope behind the hole was of a source that the fetcher had never met, so nothing told that anything was
    /// missing. The broker's own notes take places too, one at each new segment, and are no loss.
    /// </summary>
    [Fact]
    public async Task Deliver_StreamBeginsLater_TellsTheHoleAndWhatEachSourceLacks()
    {
        (Guid known, Guid met, Guid late) = (Guid.NewGuid(), Guid.NewGuid(), Guid.NewGuid());
        using (TargetStore target = TargetStore.Open(_options))
        {
            FetcherSession first = Session(target);
            // The store had been trimmed before its forwarder began.
            await DeliverAsync(first, 0, Begin(known, 640));
            await DeliverAsync(first, 1, BridgeScene.Envelope(known, 1, 640, 704, "one"));
            await DeliverAsync(first, 3, BridgeScene.Envelope(known, 1, 704, 768, "two"));
            Assert.Empty(_said);
            target.WritePosition(isLast: true);
        }

        using TargetStore again = TargetStore.Open(_options);
        FetcherSession session = Session(again);
        await DeliverAsync(session, 6, BridgeScene.Envelope(met, 1, 6400, 6464, "three"));
        string hole = Assert.Single(_said);
        Assert.StartsWith("Gap", hole, StringComparison.Ordinal);
        Assert.Contains($"places missing=2, source offsets missing=up to 6400, source={met}", hole, StringComparison.Ordinal);

        await DeliverAsync(session, 7, BridgeScene.Envelope(known, 1, 800, 864, "four"));
        await DeliverAsync(session, 8, Begin(late, 960));
        await DeliverAsync(session, 9, BridgeScene.Envelope(late, 1, 960, 1024, "five"));
        Assert.Equal(3, _said.Count);
        Assert.Contains("from=768, to=800, source offsets missing=32", _said[1], StringComparison.Ordinal);
        Assert.Contains($"source={late}, source offsets missing=up to 960", _said[2], StringComparison.Ordinal);
    }

    /// <summary>The last message that is done ended a segment; the next one begins with a note of the broker.</summary>
    [Fact]
    public async Task Deliver_OnlyTheLastMessageIsGone_TellsNothing()
    {
        Guid source = Guid.NewGuid();
        using (TargetStore target = TargetStore.Open(_options))
        {
            await DeliverAsync(Session(target), 0, BridgeScene.Envelope(source, 1, 0, 64, "one"));
            target.WritePosition(isLast: true);
        }

        using TargetStore again = TargetStore.Open(_options);
        await DeliverAsync(Session(again), 2, BridgeScene.Envelope(source, 1, 64, 128, "two"));
        Assert.Empty(_said);
        Assert.Equal(1, _runs);
    }

    /// <summary>A jump while it reads shows in the envelopes, also in those of a source that is new.</summary>
    [Fact]
    public async Task Deliver_StreamJumpsInside_TellsWhatIsMissing()
    {
        (Guid known, Guid met) = (Guid.NewGuid(), Guid.NewGuid());
        using TargetStore target = TargetStore.Open(_options);
        FetcherSession session = Session(target);
        await DeliverAsync(session, 0, BridgeScene.Envelope(known, 1, 0, 64, "one"));
        await DeliverAsync(session, 5, BridgeScene.Envelope(met, 1, 320, 384, "two"));
        await DeliverAsync(session, 9, BridgeScene.Envelope(known, 1, 96, 128, "three"));
        Assert.Equal(2, _said.Count);
        Assert.Contains($"source={met}, source offsets missing=up to 320", _said[0], StringComparison.Ordinal);
        Assert.Contains("from=64, to=96, source offsets missing=32", _said[1], StringComparison.Ordinal);
    }

    /// <summary>
    /// Brokers that lose each other may give the lock away while its old holder still publishes. Two forwarders then send the
    /// same records, each in envelopes of its own lengths.
    /// </summary>
    [Fact]
    public async Task Deliver_TwoForwardersMixed_TakesEachRecordOnce()
    {
        Guid source = Guid.NewGuid();
        (int First, int End)[] envelopes = [(0, 2), (2, 4), (2, 3), (3, 5), (4, 6), (5, 6), (6, 7)];
        using (TargetStore target = TargetStore.Open(_options))
        {
            FetcherSession session = Session(target);
            for (int place = 0; place < envelopes.Length; place++)
                await DeliverAsync(session, place, Numbers(source, envelopes[place].First, envelopes[place].End));
        }

        Assert.Empty(_said);
        Assert.Equal(["0", "1", "2", "3", "4", "5", "6"], Received());
    }

    /// <summary>
    /// The fetcher had died after it had appended more than its file says. In the stream that was made again, records of the same
    /// text were taken for those, and lost, or others kept it from continuing for ever.
    /// </summary>
    /// <param name="isSame">Whether the same store continues, behind what was fetched.</param>
    /// <param name="text">What its new records hold; it was `tick` all the time.</param>
    [Theory]
    [InlineData(true, "tick")]
    [InlineData(true, "new")]
    [InlineData(false, "tick")]
    [InlineData(false, "new")]
    public async Task Deliver_OtherStreamAfterADeath_TakesAllOfIt(bool isSame, string text)
    {
        Guid source = Guid.NewGuid();

        byte[] Make(Guid store, int number, string content) =>
            BridgeScene.Envelope(store, 1, number * 64, (number + 1) * 64, content);

        using (TargetStore target = DieAfter(2, 4, number => Make(source, number, "tick")))
        {
            // Another one is at the place of the last message that is done.
            await DeliverAsync(Session(target), 1, Make(source, 10, text));
            FetcherSession session = Session(target);
            (Guid next, int first) = isSame ? (source, 4) : (Guid.NewGuid(), 0);
            for (int number = 0; number < 3; number++)
                await DeliverAsync(session, number, Make(next, first + number, text));
        }

        Assert.Equal(["tick", "tick", "tick", "tick", text, text, text], Received());
    }

    /// <summary>
    /// Two stores were forwarded again from their beginning, and follow each other otherwise than before. What was appended last
    /// comes twice then; it kept the fetcher from continuing.
    /// </summary>
    [Fact]
    public async Task Deliver_SourcesFollowEachOtherOtherwise_GoesOn()
    {
        (Guid one, Guid two) = (Guid.NewGuid(), Guid.NewGuid());

        byte[] Make(int number) => BridgeScene.Envelope(
            number % 2 == 0 ? one : two, 1, number / 2 * 64, (number / 2 * 64) + 64, $"{number}");

        using (TargetStore target = DieAfter(2, 4, Make))
        {
            await DeliverAsync(Session(target), 1, Begin(one, 640));
            FetcherSession session = Session(target);
            int[] order = [0, 1, 3, 2, 4, 5];
            for (int place = 0; place < order.Length; place++)
                await DeliverAsync(session, place, Make(order[place]));
        }

        Assert.Equal(["0", "1", "2", "3", "3", "2", "4", "5"], Received());
    }

    /// <summary>A target that has fetched messages, and whose file says that it has fetched fewer.</summary>
    private TargetStore DieAfter(int written, int appended, Func<int, byte[]> make)
    {
        string file = Path.Combine(_temp.StorePath, "bridge.position");
        byte[] place = [];
        using (TargetStore target = TargetStore.Open(_options))
        {
            FetcherSession session = Session(target);
            for (int number = 0; number < appended; number++)
            {
                Assert.True(DeliverAsync(session, number, make(number)).IsCompletedSuccessfully);
                if (number != written - 1)
                    continue;
                target.WritePosition(isLast: true);
                place = File.ReadAllBytes(file);
            }
        }

        File.WriteAllBytes(file, place);
        return TargetStore.Open(_options);
    }

    private List<string> Received()
    {
        using MappedFileReader reader = MappedFileReader.Open(_temp.StorePath);
        List<string> received = [];
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            received.Add(Encoding.UTF8.GetString(message));
        return received;
    }

    /// <summary>Records of one digit, which take 16 bytes of the source each.</summary>
    private static byte[] Numbers(Guid source, int first, int end)
    {
        EnvelopeWriter writer = new(source, Guid.Empty, 1024, isDurable: false);
        writer.Begin(first * 16);
        for (int number = first; number < end; number++)
            Assert.True(writer.TryAdd(number * 16, [(byte)('0' + number)]));
        return writer.End(EnvelopeKind.Records, 1, end * 16).ToArray();
    }

    private static byte[] Begin(Guid source, long from)
    {
        EnvelopeWriter writer = new(source, Guid.Empty, 0, isDurable: false);
        writer.Begin(from);
        return writer.End(EnvelopeKind.Records, 1, from).ToArray();
    }

    private static Task DeliverAsync(FetcherSession session, long offset, byte[] body)
    {
        BasicProperties properties = new() { Headers = new Dictionary<string, object?> { [StreamQueue.OffsetName] = offset } };
        return session.HandleBasicDeliverAsync("", (ulong)offset + 1, false, "", "", properties, body);
    }

    private FetcherSession Session(TargetStore target) => new(
        _options, target, null!, null!, () => _runs++, (fault, change, _) => _said.Add($"{fault}: {change}"), (_, _) => { },
        (_, _) => { });
}
