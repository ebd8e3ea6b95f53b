using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Bridge;

/// <summary>`mfq bridge` in the hands of somebody at a shell.</summary>
[Collection(BrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class BridgeCommandTests(BrokerFixture broker) : IDisposable
{
    private readonly BridgeScene _scene = new(broker);

    public void Dispose() => _scene.Dispose();

    /// <summary>
    /// A job with a wrong password or virtual host tried again for ever, and never had an exit code. Once in six runs under load
    /// the client takes a connection to a missing host for open, and hears of the denial a moment later.
    /// </summary>
    [Theory]
    [InlineData("guest:wrong-word", "")]
    [InlineData("guest:guest", "/missing")]
    public void ForwardOnce_BrokerDenies_EndsWithAnExitCode(string account, string virtualHost)
    {
        _scene.Produce("one");
        string address = broker.Node.Address.Replace("guest:guest", account, StringComparison.Ordinal) + virtualHost;

        ToolRun run = Forward(_scene.Stream, address).Expect(1);

        Assert.Contains("denies", run.Error, StringComparison.Ordinal);
        Assert.DoesNotContain("wrong-word", run.Error, StringComparison.Ordinal);
    }

    /// <summary>
    /// The fetcher's own store could not take what a forwarder sends by default, and the command had no option for it. Its error
    /// named an option of the library.
    /// </summary>
    [Fact]
    public void Fetch_SegmentsAreTooShort_NamesItsOptionWhichHelps()
    {
        string text = new('x', 100_000);
        _scene.Produce(text);
        Forward(_scene.Stream).Expect(0);

        ToolRun run = ToolRun.Of(Fetch(_scene.TargetPath + "-short", "64KiB")).Expect(1);

        Assert.Contains("(--segment-size): 100008 bytes at least", run.Error, StringComparison.Ordinal);
        using ChildProcess fetch = ChildProcess.StartTool(Fetch(_scene.TargetPath, "128KiB"));
        Eventually.True(() => _scene.Received().Count == 1, "it arrives", BridgeScene.Deadline);
        fetch.Signal(ChildProcess.SigTerm);
        fetch.ExpectExit(143);
        Assert.Equal([text], _scene.Received());

        string[] Fetch(string path, string segmentSize) =>
            ["bridge", "fetch", broker.Node.Address, "--stream", _scene.Stream, path, "--segment-size", segmentSize];
    }

    /// <summary>The error spoke of a stream that was deleted, and of an option of the library, not of a consumer.</summary>
    [Fact]
    public void Forward_IntoASecondStream_NamesTheOptionWhichHelps()
    {
        _scene.Produce("one");
        Forward(_scene.Stream).Expect(0);

        ToolRun run = Forward(_scene.Stream + "-second").Expect(1);

        Assert.Contains("another consumer (--consumer)", run.Error, StringComparison.Ordinal);
        Assert.Contains("(--go-on)", run.Error, StringComparison.Ordinal);
        Assert.DoesNotContain("OnSourceChange", run.Error, StringComparison.Ordinal);
        ToolRun second = Forward(_scene.Stream + "-second", null, "--consumer", "second").Expect(0);
        Assert.Contains("1 message", second.Text, StringComparison.Ordinal);
    }

    private ToolRun Forward(string stream, string? address = null, params string[] more) => ToolRun.Of(
        ["bridge", "forward", _scene.SourcePath, address ?? broker.Node.Address, "--stream", stream, "--once", .. more]);
}
