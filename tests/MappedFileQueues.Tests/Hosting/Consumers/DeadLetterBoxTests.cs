using MappedFileQueues.Hosting;
using MappedFileQueues.Hosting.Consumers;
using MappedFileQueues.Tests.Platform;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace MappedFileQueues.Tests.Hosting.Consumers;

/// <summary>Dead letters always get into their store, or the consumer waits until they can.</summary>
public sealed class DeadLetterBoxTests
{
    private readonly Script _script = new();

    /// <summary>
    /// The store of the dead letters had the queue's own segments, so a message that just fits one had no room there together
    /// with its origin, and the text of an exception had no limit. The consumer stopped at such a message for good.
    /// </summary>
    [Fact]
    public async Task Append_LongestMessageAndLongestText_Fits()
    {
        const int SegmentSize = 65536;
        string text = "\ud83d\ude00" + new string('\u0001', 66_000);
        _script.OnMessage = (message, _, _) => message.Length > 1 ? throw new InvalidOperationException(text) : default;
        await using TestHost host = MakeHost();
        Produce(host, SegmentSize, new byte[SegmentSize - 8], new byte[1]);

        await host.StartAsync();
        Eventually.Equal(2, () => _script.Seen.Count);
        await host.StopAsync();

        DeadLetter letter = Assert.Single(ReadLetters(host.StorePath + "-dead-letters"));
        Assert.Equal(SegmentSize - 8, letter.Message.Length);
        Assert.Equal(8192, letter.Error.Length);
        Assert.StartsWith("\ud83d\ude00\u0001", letter.Error, StringComparison.Ordinal);
        Assert.EndsWith("\u0001…", letter.Error, StringComparison.Ordinal);
    }

    /// <summary>
    /// A message so long that no store takes it together with its origin and its error held its consumer up for ever. The limit
    /// is 256 MiB, and a smaller one here.
    /// </summary>
    [Fact]
    public void Append_NoStoreTakesTheWholeLetter_HoldsItsBeginningAndItsLength()
    {
        using TempStore store = new();
        byte[] message = [.. Enumerable.Range(0, 5000).Select(number => (byte)number)];
        HostedQueueOptions options = new() { StorePath = store.StorePath + "-queue" };
        using (DeadLetterBox box = new(store.StorePath, options, letterLengthMax: 4000))
            box.Append(new DeadLetter { Offset = 16, Error = "Never.", MessageLength = 5000, Message = message }, 65536, null);

        DeadLetter letter = Assert.Single(ReadLetters(store.StorePath));
        Assert.Equal((16, "Never.", 5000), (letter.Offset, letter.Error, letter.MessageLength));
        Assert.InRange(letter.Message.Length, 3000, 4000);
        Assert.Equal(message[..letter.Message.Length], letter.Message);
    }

    /// <summary>A handler that outlived its host opened the store of the letters again, and nobody closed it.</summary>
    [Fact]
    public void Append_AfterDispose_OpensNothing()
    {
        using TempStore store = new();
        DeadLetterBox box = new(store.StorePath, new HostedQueueOptions { StorePath = store.StorePath + "-queue" });
        box.Dispose();

        Assert.Throws<ObjectDisposedException>(() => box.Append(new DeadLetter { Error = "Late." }, 65536, null));

        Assert.False(Directory.Exists(store.StorePath));
    }

    /// <summary>A text is not cut between the two halves of a character, and half a character does no harm.</summary>
    [Theory]
    [InlineData(8190, 8191)]
    [InlineData(8189, 8192)]
    public void Describe_TextIsCutAtAPair_StaysWhole(int before, int length)
    {
        string text = new string('x', before) + "\ud83d\ude00" + new string('y', 100);

        string cut = DeadLetter.Describe(new InvalidOperationException(text)).Text;

        Assert.Equal(length, cut.Length);
        Assert.Equal(text[..(length - 1)] + "…", cut);
        DeadLetter read = DeadLetter.Parse(new DeadLetter { Error = "\ud800" + cut }.ToBytes());
        Assert.Equal("\ufffd" + cut, read.Error);
    }

    /// <summary>
    /// A disk that is full at the moment of a dead letter stopped the consumer until somebody started the application again, and
    /// health named the disk but not what the handler had thrown.
    /// </summary>
    [Fact]
    public async Task Append_DiskIsFullForAWhile_HealthShowsBothErrorsAndTheConsumerContinues()
    {
        using TempStore folder = new();
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", folder.Root, lengthMiB: 32);
        string filler = disk.PathOf("filler");
        MountedFileSystem.Run("sh", "-c", $"cat /dev/zero > '{filler}' || true");
        _script.OnMessage = (message, _, _) => message == "!" ? throw new InvalidOperationException("Never.") : default;
        await using TestHost host = MakeHost((options, _) => options.DeadLetterPath = disk.PathOf("letters"));
        Produce(host, 65536, "!"u8.ToArray(), "b"u8.ToArray());

        await host.StartAsync();
        host.Log.WaitFor(208);
        HealthReport held = await host.CheckHealthAsync();
        File.Delete(filler);
        Eventually.Equal(2, () => _script.Seen.Count);
        HealthReport well = await host.CheckHealthAsync();
        await host.StopAsync();

        string finding = Assert.Single(held.Entries.Values).Description!;
        Assert.Equal(HealthStatus.Unhealthy, held.Status);
        Assert.Contains("is held up", finding, StringComparison.Ordinal);
        Assert.Contains("No space left on device", finding, StringComparison.Ordinal);
        Assert.Contains("System.InvalidOperationException: Never.", finding, StringComparison.Ordinal);
        Assert.DoesNotContain("held up", $"{Assert.Single(well.Entries.Values).Description}", StringComparison.Ordinal);
        Assert.Equal(["!", "b"], _script.Messages);
        Assert.Equal("!"u8, Assert.Single(ReadLetters(disk.PathOf("letters"))).Message.Span);
    }

    /// <summary>
    /// A store of dead letters from before keeps the segments that it was made with. Once it is moved away, the consumer makes
    /// one that is long enough, without a restart.
    /// </summary>
    [Fact]
    public async Task Append_StoreHasShortSegments_SaysSoAndContinuesInANewOne()
    {
        _script.OnMessage = (message, _, _) => message.Length > 1 ? throw new InvalidOperationException("Never.") : default;
        await using TestHost host = MakeHost();
        string letters = host.StorePath + "-dead-letters";
        new MappedFileQueue(new MappedFileQueueOptions { StorePath = letters, SegmentSize = 4096 }).Dispose();
        Produce(host, 65536, new byte[65528], new byte[1]);

        await host.StartAsync();
        host.Log.WaitFor(208);
        string finding = Assert.Single((await host.CheckHealthAsync()).Entries.Values).Description!;
        Directory.Move(letters, letters + "-before");
        Eventually.Equal(2, () => _script.Seen.Count);
        await host.StopAsync();

        Assert.Contains("too long for its store", finding, StringComparison.Ordinal);
        Assert.Contains("Move that store away", finding, StringComparison.Ordinal);
        Assert.Equal(65528, Assert.Single(ReadLetters(letters)).Message.Length);
    }

    /// <summary>An application ends while its consumer waits to append a dead letter.</summary>
    [Fact]
    public async Task Append_ApplicationEndsInTheMeantime_EndsAtOnceAndCommitsNothing()
    {
        _script.OnMessage = (_, _, _) => throw new InvalidOperationException("Never.");
        await using TestHost host = MakeHost((options, path) => options.DeadLetterPath = path + "-file");
        await File.WriteAllTextAsync(host.StorePath + "-file", "no store", TestContext.Current.CancellationToken);
        Produce(host, 65536, "!"u8.ToArray());

        await host.StartAsync();
        host.Log.WaitFor(208);
        await host.StopAsync();

        Assert.Equal(0, host.Log.CountOf(206));
        Assert.Equal(0, host.Get<MappedFileQueue>("orders").GetInfo().Consumers.Single().Offset);
    }

    /// <summary>
    /// The path of the dead letters was a link to the queue's own store: each letter was a message whose handler failed, without
    /// an end. Paths were compared as texts.
    /// </summary>
    [Fact]
    public async Task Start_PathLeadsToTheQueueItself_IsRefused()
    {
        await using TestHost host = MakeHost((options, path) => options.DeadLetterPath = path + "-link/");
        Produce(host, 65536, "!"u8.ToArray());
        Directory.CreateSymbolicLink(host.StorePath + "-link", host.StorePath);

        InvalidOperationException error = await Assert.ThrowsAsync<InvalidOperationException>(host.StartAsync);

        Assert.Contains("MappedFileQueues:orders:Consumer", error.Message, StringComparison.Ordinal);
        Assert.Contains("DeadLetterPath is the queue's own store", error.Message, StringComparison.Ordinal);
    }

    /// <summary>A mount, or a link that is made later, leads there as well; the store itself tells.</summary>
    [Fact]
    public async Task Append_PathLeadsToTheQueueItselfLater_AppendsNothing()
    {
        _script.OnMessage = (_, _, _) => throw new InvalidOperationException("Never.");
        await using TestHost host = MakeHost();
        await host.StartAsync();
        Directory.CreateSymbolicLink(host.StorePath + "-dead-letters", host.StorePath);
        host.Get<MappedFileQueue>("orders").Producer.Produce("!"u8);

        host.Log.WaitFor(208);
        await host.StopAsync();

        Assert.Equal(16, host.Get<MappedFileQueue>("orders").GetInfo().PublishedOffset);
    }

    /// <summary>Event 206 named the message that the handler had got last, or 0, when the next one could not be read.</summary>
    [Fact]
    public async Task Stop_AtAMessageThatCannotBeRead_TheLogNamesItsOffset()
    {
        await using TestHost host = new();
        host.Services.AddSingleton(_script);
        host.Services.AddMappedFileQueue("orders", options => options.StorePath = host.StorePath);
        host.Services.AddMappedFileConsumer<string, TextHandler>("orders", new TextDeserializer());
        Produce(host, 65536, "a"u8.ToArray(), "b"u8.ToArray(), "!"u8.ToArray());

        await host.StartAsync();

        Assert.EndsWith("stops for good: offset=32", host.Log.WaitFor(206), StringComparison.Ordinal);
    }

    /// <summary>The event named the end of the last message, where the segment's padding begins, and no message.</summary>
    [Fact]
    public async Task Stop_AtTheFirstMessageOfASegment_TheLogNamesItsOffset()
    {
        _script.OnMessage = (message, _, _) => message.Length > 3000 ? throw new InvalidOperationException("Never.") : default;
        await using TestHost host = MakeHost((options, _) => options.OnFailure = HandlerFailureAction.Stop);
        Produce(host, 4096, new byte[3000], new byte[3001]);

        await host.StartAsync();

        Assert.EndsWith("stops for good: offset=4096", host.Log.WaitFor(206), StringComparison.Ordinal);
    }

    private TestHost MakeHost(Action<HostedConsumerOptions, string>? configure = null)
    {
        TestHost host = new();
        host.Services.AddSingleton(_script);
        host.Services.AddMappedFileQueue("orders", options =>
            (options.StorePath, options.SegmentSize) = (host.StorePath, 65536));
        host.Services.AddHealthChecks().AddMappedFileQueue("orders");
        host.Services.AddMappedFileConsumer<ByteHandler>("orders", options =>
        {
            (options.RetryDelay, options.AttemptsMax, options.OnFailure) = (TimeSpan.Zero, 1, HandlerFailureAction.DeadLetter);
            configure?.Invoke(options, host.StorePath);
        });
        return host;
    }

    private static void Produce(TestHost host, long segmentSize, params byte[][] messages)
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = host.StorePath, SegmentSize = segmentSize });
        foreach (byte[] message in messages)
            queue.Producer.Produce(message);
    }

    private static List<DeadLetter> ReadLetters(string path)
    {
        List<DeadLetter> letters = [];
        using MappedFileReader reader = MappedFileReader.Open(path);
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            letters.Add(DeadLetter.Parse(message));
        return letters;
    }
}
