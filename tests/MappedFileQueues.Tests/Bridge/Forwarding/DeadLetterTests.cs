using MappedFileQueues.RabbitMQ;
using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Bridge.Forwarding;

/// <summary>What goes to the dead letters, and stores that cannot take it.</summary>
[Collection(SecondBrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class DeadLetterTests(BrokerFixture broker) : IDisposable
{
    /// <summary>Refusals of one place after which its record would be a dead letter, and one more.</summary>
    private const int RefusedRounds = 5;

    private readonly BridgeScene _scene = new(broker);

    private string DeadPath => Path.Combine(_scene.Root, "dead");

    public void Dispose() => _scene.Dispose();

    /// <summary>
    /// A session begins with an envelope without records. While records went one by one, its refusal counted as one of the record
    /// behind it, and a record that nobody had ever refused became a dead letter.
    /// </summary>
    [Fact]
    public async Task RunOnce_EmptyEnvelopesAreRefused_TheRecordBehindIsNoDeadLetter()
    {
        int confirms = 0;
        using FrameProxy proxy = new(broker.Node.Port)
        {
            // Once the long record is a dead letter: the envelope in its place, and then each session's second, after the marker.
            Refuses = _ => File.Exists(Path.Combine(DeadPath, "queue.meta")) && confirms++ is <= 2 * RefusedRounds and var number
                && number % 2 == 0,
        };
        _scene.Address = proxy.Address;
        const int TooLong = BrokerFixture.MessageLengthMax + 1000;
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _scene.SourcePath }))
        {
            queue.Producer.Produce(new byte[TooLong]);
            queue.Producer.Produce("good"u8);
        }

        StreamForwarderOptions options = _scene.Forward();
        // Both in one envelope, so that both are suspected.
        (options.PackLength, options.DeadLetterPath) = (2 * TooLong, DeadPath);
        await BridgeScene.OnceAsync(options);

        Assert.Equal(RefusedRounds + 1, proxy.Refusals);
        using MappedFileReader dead = MappedFileReader.Open(DeadPath);
        Assert.True(dead.TryRead(out ReadOnlySpan<byte> letter));
        Assert.Equal(TooLong, DeadLetter.Parse(letter).Message.Length);
        Assert.False(dead.TryRead(out _));
        await _scene.FetchAsync(1);
        Assert.Equal(["good"], _scene.Received());
    }

    /// <summary>
    /// A record that is too long with its headers was said to be refused by the broker. Without a store of dead letters, the
    /// remedy was to raise the broker's limit, which helps nothing.
    /// </summary>
    [Fact]
    public async Task RunOnce_RecordIsTooLongWithItsHeaders_NamesTheLimitThatItIs()
    {
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _scene.SourcePath }))
        {
            queue.Producer.Produce(
                new byte[990], new ProduceOptions { Headers = new MessageHeaders { Key = new byte[20] } });
        }

        StreamForwarderOptions options = _scene.Forward();
        options.RecordLengthMax = 1000;
        BridgeException error = await Assert.ThrowsAsync<BridgeException>(() => BridgeScene.OnceAsync(options));
        Assert.Contains("RecordLengthMax", error.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("broker", error.Message, StringComparison.Ordinal);

        options.DeadLetterPath = DeadPath;
        await BridgeScene.OnceAsync(options);
        using MappedFileReader dead = MappedFileReader.Open(DeadPath);
        Assert.True(dead.TryRead(out ReadOnlySpan<byte> message));
        Assert.Contains("longer than the bridge sends", DeadLetter.Parse(message).Error, StringComparison.Ordinal);
    }

    /// <summary>
    /// The record that went to the dead letters counted as what the broker lacks, until the next one was there.
    /// </summary>
    [Fact]
    public async Task Run_LastRecordIsADeadLetter_NothingLags()
    {
        StreamForwarderOptions options = _scene.Forward();
        (options.RecordLengthMax, options.DeadLetterPath) = (1000, DeadPath);
        _scene.Produce("short");
        StreamForwarder forwarder = new(options);
        using CancellationTokenSource stop = new(BridgeScene.Deadline);
        Task running = forwarder.RunAsync(stop.Token);
        Eventually.True(
            () => forwarder.GetStatus().Messages == 1 || running.IsCompleted, "the short one is there", BridgeScene.Deadline);
        _scene.Produce(new string('x', 100_000));
        Eventually.True(
            () => (Directory.Exists(DeadPath) && forwarder.GetStatus().LagBytes == 0) || running.IsCompleted, "nothing lags",
            BridgeScene.Deadline);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => running);
    }

    /// <summary>The second run said at once that the broker refuses the record, and did not offer it.</summary>
    [Fact]
    public async Task RunOnce_AgainAfterARefusal_OffersTheRecordAgain()
    {
        _scene.SegmentSize = 4 * BrokerFixture.MessageLengthMax;
        _scene.Produce(new string('x', BrokerFixture.MessageLengthMax + 1000));
        StreamForwarder forwarder = new(_scene.Forward());
        using CancellationTokenSource limit = new(BridgeScene.Deadline);
        for (int run = 1; run <= 2; run++)
        {
            long before = forwarder.GetStatus().Attempts;
            BridgeException error = await Assert.ThrowsAsync<BridgeException>(() => forwarder.RunOnceAsync(limit.Token));
            Assert.Equal(BridgeFault.Refused, error.Fault);
            Assert.InRange(forwarder.GetStatus().Attempts - before, 4, int.MaxValue);
        }
    }

    /// <summary>The forwarder ended with a word about an argument.</summary>
    [Fact]
    public async Task RunOnce_DeadLetterStoreIsTooSmall_StopsAndSaysWhatToDo()
    {
        using (new MappedFileQueue(new MappedFileQueueOptions { StorePath = DeadPath, SegmentSize = 65536 }))
        {
        }

        string text = await StopsAsync();
        Assert.Contains("length=100000", text, StringComparison.Ordinal);
        Assert.Contains("too long for its store", text, StringComparison.Ordinal);
    }

    /// <summary>The forwarder took it for another forwarder that has the source, and stood by for ever.</summary>
    [Fact]
    public async Task RunOnce_DeadLetterStoreIsInUse_StopsAndSaysWhatToDo()
    {
        using MappedFileQueue holder = new(
            new MappedFileQueueOptions { StorePath = DeadPath, ProducerMode = ProducerMode.Exclusive });
        holder.Producer.Produce("mine"u8);

        Assert.Contains("for itself", await StopsAsync(), StringComparison.Ordinal);
    }

    /// <summary>A store of structs takes no messages.</summary>
    [Fact]
    public async Task RunOnce_DeadLetterStoreIsOfAnotherKind_StopsAndSaysWhatToDo()
    {
        using (new MappedFileQueue<long>(new MappedFileQueueOptions { StorePath = DeadPath }))
        {
        }

        await StopsAsync();
    }

    /// <summary>It held the bare record, and nothing told where that came from, or why it was there.</summary>
    [Fact]
    public async Task RunOnce_RecordIsTooLong_TheLetterTellsWhereItComesFromAndWhy()
    {
        _scene.Produce("short", new string('x', 100_000));
        StreamForwarderOptions options = _scene.Forward();
        (options.RecordLengthMax, options.DeadLetterPath) = (1000, DeadPath);
        await BridgeScene.OnceAsync(options);

        using MappedFileReader source = MappedFileReader.Open(_scene.SourcePath);
        Assert.True(source.TryRead(out _));
        Assert.True(source.TryRead(out ReadOnlySpan<byte> record));
        using MappedFileReader dead = MappedFileReader.Open(DeadPath);
        Assert.True(dead.TryRead(out ReadOnlySpan<byte> message));
        DeadLetter letter = DeadLetter.Parse(message);
        Assert.Equal(record, letter.Message.Span);
        MappedFileQueueInfo info = StoreInspector.Inspect(_scene.SourcePath);
        Assert.Equal((info.StoreId, info.Epoch, source.MessageOffset), (letter.StoreId, letter.Epoch, letter.Offset));
        Assert.Equal((options.Stream, options.ConsumerName, 0), (letter.Queue, letter.Consumer, letter.Attempts));
        Assert.Contains("limit=1000", letter.Error, StringComparison.Ordinal);
        string listed = ToolRun.Of("deadletters", "list", DeadPath).Expect(0).Text;
        Assert.Contains("1 letter.", listed, StringComparison.Ordinal);
    }

    /// <summary>A record for the dead letters comes.</summary>
    private async Task<string> StopsAsync()
    {
        _scene.Produce("short", new string('x', 100_000));
        StreamForwarderOptions options = _scene.Forward();
        (options.RecordLengthMax, options.DeadLetterPath) = (1000, DeadPath);
        BridgeException error = await Assert.ThrowsAsync<BridgeException>(() => BridgeScene.OnceAsync(options));
        Assert.Equal(BridgeFault.DeadLetters, error.Fault);
        Assert.Contains(DeadPath, error.Message, StringComparison.Ordinal);
        Assert.Contains("DeadLetterPath", error.Message, StringComparison.Ordinal);
        return error.Message;
    }
}
