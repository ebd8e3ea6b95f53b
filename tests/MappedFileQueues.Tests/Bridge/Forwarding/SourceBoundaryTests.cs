using MappedFileQueues.RabbitMQ;
using MappedFileQueues.RabbitMQ.Envelopes;
using MappedFileQueues.Tests.Crash;
using MappedFileQueues.Tests.Crash.Cuts;

namespace MappedFileQueues.Tests.Bridge.Forwarding;

/// <summary>Streams that end where no message of the store ends.</summary>
[Collection(SecondBrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class SourceBoundaryTests(BrokerFixture broker) : IDisposable
{
    private const long Within = 8;

    private readonly BridgeScene _scene = new(broker);

    public void Dispose() => _scene.Dispose();

    /// <summary>
    /// The store was cut back and written anew, with messages of other lengths. The forwarder asked the consumer to move into the
    /// middle of a message, and failed at each start, whatever the policy was. A fetcher left out the message in silence.
    /// </summary>
    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    public async Task RunOnce_StreamEndsWithinAMessage_StopsAndGoesOnOnlyWhenTold(int epochsBefore)
    {
        using CutStore cut = CutStore.Make(segmentSize: 65536, count: 100);
        cut.Recover();
        EnvelopeWriter writer = new(cut.Info().StoreId, Guid.NewGuid(), 1024, isDurable: true);
        writer.Begin(0);
        byte[] old = CrashMessage.Make("old", 0);
        Assert.True(writer.TryAdd(0, old));
        await _scene.PublishAsync(writer.End(EnvelopeKind.Records, cut.Info().Epoch - epochsBefore, Within).ToArray());

        StreamForwarderOptions options = _scene.Forward(cut.Store.Path);
        BridgeException error = await Assert.ThrowsAsync<BridgeException>(() => BridgeScene.OnceAsync(options));
        Assert.Equal(BridgeFault.SourceChanged, error.Fault);
        Assert.Contains("within a message", error.Message, StringComparison.Ordinal);

        options.OnSourceChange = SourceChangePolicy.Continue;
        StreamForwarder told = await BridgeScene.OnceAsync(options);
        Assert.Equal(100, told.GetStatus().Messages);

        Assert.Equal(BridgeFault.SourceChanged, (await _scene.FetchStopsAsync()).Fault);
        StreamFetcherOptions fetch = _scene.Fetch();
        fetch.OnSourceChange = SourceChangePolicy.Continue;
        await _scene.FetchAsync(101, fetch);
        Assert.Equal(["old", .. cut.Texts], _scene.Received(message => CrashMessage.Read(message)));
    }
}
