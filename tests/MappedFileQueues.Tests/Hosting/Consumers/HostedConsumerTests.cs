using MappedFileQueues.Hosting;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace MappedFileQueues.Tests.Hosting.Consumers;

/// <summary>Consumers as background services: what handlers see, and what is committed when.</summary>
public sealed class HostedConsumerTests
{
    private readonly Script _script = new();

    [Fact]
    public async Task Consumer_OfStructs_SeesEachMessageOnceInOrderWithItsOffsets()
    {
        await using TestHost host = MakeHost(services => services.AddMappedFileConsumer<long, LongHandler>("orders"));
        await host.StartAsync();
        MappedFileQueue<long> queue = host.Get<MappedFileQueue<long>>("orders");

        long[] offsets = [.. Enumerable.Range(0, 1000).Select(number => queue.Producer.Produce(number))];
        Eventually.Equal(1000, () => _script.Seen.Count);
        await host.StopAsync();

        Assert.Equal(Enumerable.Range(0, 1000).Select(number => $"{number}"), _script.Messages);
        Assert.Equal(offsets, _script.Seen.Select(seen => seen.Offset));
        Assert.All(_script.Seen, seen => Assert.Equal(seen.Offset + 16, seen.NextOffset));
        Assert.Equal(offsets[^1] + 16, Committed(queue.GetInfo()));
    }

    [Theory]
    [InlineData(7)]
    [InlineData(256)]
    public async Task BatchConsumer_OfStructs_SeesEachMessageOnceInBatches(int lengthMax)
    {
        await using TestHost host = MakeHost(services => services.AddMappedFileBatchConsumer<long, LongBatchHandler>(
            "orders", options => options.BatchLengthMax = lengthMax));
        using (MappedFileQueue<long> before = new(new MappedFileQueueOptions { StorePath = host.StorePath, SegmentSize = 4096 }))
        {
            // Over the ends of segments.
            for (int i = 0; i < 1000; i++)
                before.Producer.Produce(i);
        }

        await host.StartAsync();
        Eventually.Equal(1000, () => _script.Seen.Count);
        await host.StopAsync();

        Assert.Equal(Enumerable.Range(0, 1000).Select(number => $"{number}"), _script.Messages);
        Assert.All(_script.Batches, length => Assert.InRange(length, 1, lengthMax));
        MappedFileQueueInfo info = host.Get<MappedFileQueue<long>>("orders").GetInfo();
        Assert.Equal(info.PublishedOffset, Committed(info));
    }

    [Theory]
    [InlineData("bytes")]
    [InlineData("byte batches")]
    [InlineData("texts")]
    [InlineData("text batches")]
    public async Task Consumer_OfMessages_SeesEachMessageOnce(string kind)
    {
        await using TestHost host = new();
        host.Services.AddSingleton(_script);
        host.Services.AddMappedFileQueue("orders", options => options.StorePath = host.StorePath);
        _ = kind switch
        {
            "bytes" => host.Services.AddMappedFileConsumer<ByteHandler>("orders"),
            "byte batches" => host.Services.AddMappedFileBatchConsumer<ByteBatchHandler>("orders"),
            "texts" => host.Services.AddMappedFileConsumer<string, TextHandler>("orders", new TextDeserializer()),
            _ => host.Services.AddMappedFileBatchConsumer<string, TextBatchHandler>("orders", new TextDeserializer()),
        };
        await host.StartAsync();
        MappedFileQueue queue = host.Get<MappedFileQueue>("orders");
        string[] texts = [.. Enumerable.Range(0, 500).Select(number => new string((char)('a' + (number % 26)), number * 11))];

        foreach (string text in texts)
            queue.Producer.Produce(System.Text.Encoding.UTF8.GetBytes(text));
        Eventually.Equal(500, () => _script.Seen.Count);
        await host.StopAsync();

        Assert.Equal(texts, _script.Messages);
        Assert.Equal(queue.GetInfo().PublishedOffset, Committed(queue.GetInfo()));
    }

    [Fact]
    public async Task Handler_FailsTwice_IsCalledAgainWithTheSameMessageAfterPauses()
    {
        _script.OnMessage = (message, context, _) =>
            message == "1" && context.Attempt < 3 ? throw new InvalidOperationException("Not yet.") : default;
        await using TestHost host = MakeHost(services => services.AddMappedFileConsumer<long, LongHandler>(
            "orders", options => options.RetryDelay = TimeSpan.FromMilliseconds(1)));
        await host.StartAsync();
        Produce(host, 3);
        Eventually.Equal(5, () => _script.Seen.Count);

        Assert.Equal(["0", "1", "1", "1", "2"], _script.Messages);
        Assert.Equal([1, 1, 2, 3, 1], _script.Seen.Select(seen => seen.Attempt));
        Assert.Equal(2, host.Log.CountOf(204));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Handler_FailsAlways_StopsThereAndNothingIsCommitted(bool stopsApplication)
    {
        _script.OnMessage = (message, _, _) => message == "1" ? throw new InvalidOperationException("Never.") : default;
        await using TestHost host = MakeHost(services => services.AddMappedFileConsumer<long, LongHandler>("orders", options =>
        {
            (options.RetryDelay, options.AttemptsMax) = (TimeSpan.Zero, 3);
            options.OnFailure = stopsApplication ? HandlerFailureAction.StopApplication : HandlerFailureAction.Stop;
        }));
        await host.StartAsync();
        Produce(host, 3);
        host.Log.WaitFor(206);

        Assert.Equal(["0", "1", "1", "1"], _script.Messages);
        Assert.Equal(16, Committed(host.Get<MappedFileQueue<long>>("orders").GetInfo()));
        if (stopsApplication)
        {
            CancellationToken stopping = host.Provider.GetRequiredService<IHostApplicationLifetime>().ApplicationStopping;
            Eventually.True(() => stopping.IsCancellationRequested, "the application stops");
            Environment.ExitCode = 0;
        }
    }

    [Fact]
    public async Task DeadLetter_OfStructs_HoldsTheMessageAndItsOriginAndTheConsumerGoesOn()
    {
        _script.OnMessage = (message, _, _) => message == "1" ? throw new InvalidOperationException("Never.") : default;
        await using TestHost host = MakeHost(services => services.AddMappedFileConsumer<long, LongHandler>("orders", options =>
        {
            (options.RetryDelay, options.AttemptsMax) = (TimeSpan.Zero, 2);
            options.OnFailure = HandlerFailureAction.DeadLetter;
        }));
        await host.StartAsync();
        Produce(host, 3);
        Eventually.Equal(4, () => _script.Seen.Count);
        await host.StopAsync();

        DeadLetter letter = Assert.Single(ReadLetters(host));
        Assert.Equal(1, BitConverter.ToInt64(letter.Message.Span));
        Assert.Equal(16, letter.Offset);
        Assert.Equal(2, letter.Attempts);
        Assert.Equal(("orders", "", "Never."), (letter.Queue, letter.Consumer, letter.Error));
        Assert.Equal(typeof(InvalidOperationException).FullName, letter.ErrorType);
        MappedFileQueueInfo info = host.Get<MappedFileQueue<long>>("orders").GetInfo();
        Assert.Equal(info.StoreId, letter.StoreId);
        Assert.Equal(info.PublishedOffset, Committed(info));
        host.Log.WaitFor(205);
    }

    [Fact]
    public async Task DeadLetter_OfABatch_TakesTheBadMessageAlone()
    {
        _script.OnMessage = (message, _, _) => message == "5" ? throw new InvalidOperationException("Never.") : default;
        await using TestHost host = MakeHost(services =>
            services.AddMappedFileBatchConsumer<long, LongBatchHandler>("orders", options =>
            {
                (options.RetryDelay, options.AttemptsMax) = (TimeSpan.Zero, 2);
                options.OnFailure = HandlerFailureAction.DeadLetter;
            }));
        using (MappedFileQueue<long> before = new(new MappedFileQueueOptions { StorePath = host.StorePath }))
        {
            for (int i = 0; i < 10; i++)
                before.Producer.Produce(i);
        }

        await host.StartAsync();
        MappedFileQueue<long> queue = host.Get<MappedFileQueue<long>>("orders");
        Eventually.Equal(160, () => Committed(queue.GetInfo()));
        await host.StopAsync();

        Assert.Equal(5, BitConverter.ToInt64(Assert.Single(ReadLetters(host)).Message.Span));
        Assert.Equal(Enumerable.Range(0, 10).Select(number => $"{number}").ToHashSet(), _script.Messages.ToHashSet());
        Assert.Equal([10, 10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], _script.Batches);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task DeadLetter_OfABytesThatCannotBeRead_IsNotTriedAgain(bool inBatches)
    {
        await using TestHost host = new();
        host.Services.AddSingleton(_script);
        host.Services.AddMappedFileQueue("orders", options => options.StorePath = host.StorePath);
        Action<HostedConsumerOptions> configure = options => options.OnFailure = HandlerFailureAction.DeadLetter;
        _ = inBatches
            ? host.Services.AddMappedFileBatchConsumer<string, TextBatchHandler>("orders", new TextDeserializer(), configure)
            : host.Services.AddMappedFileConsumer<string, TextHandler>("orders", new TextDeserializer(), configure);
        using (MappedFileQueue before = new(new MappedFileQueueOptions { StorePath = host.StorePath }))
        {
            foreach (string text in new[] { "a", "b", "!", "c" })
                before.Producer.Produce(System.Text.Encoding.UTF8.GetBytes(text));
        }

        await host.StartAsync();
        Eventually.Equal(3, () => _script.Seen.Count);
        await host.StopAsync();

        Assert.Equal(["a", "b", "c"], _script.Messages);
        DeadLetter letter = Assert.Single(ReadLetters(host));
        Assert.Equal("!"u8, letter.Message.Span);
        Assert.Equal(32, letter.Offset);
    }

    [Fact]
    public async Task Stop_WithAMessageInHand_LetsItEndAndCommitsIt()
    {
        TaskCompletionSource release = new();
        _script.OnMessage = (message, _, _) => message == "1" ? new ValueTask(release.Task) : default;
        await using TestHost host = MakeHost(services => services.AddMappedFileConsumer<long, LongHandler>("orders"));
        await host.StartAsync();
        Produce(host, 3);
        Eventually.Equal(2, () => _script.Seen.Count);

        Task stopping = host.StopAsync();
        Assert.False(stopping.IsCompleted);
        release.SetResult();
        await stopping;

        Assert.Equal(["0", "1"], _script.Messages);
        Assert.Equal(32, Committed(host.Get<MappedFileQueue<long>>("orders").GetInfo()));
    }

    /// <summary>
    /// A client that threw an error of its own when its token was cancelled had refused the message: at the last attempt it went
    /// to the dead letters, or the application ended as a failed one.
    /// </summary>
    [Theory]
    [InlineData(false, HandlerFailureAction.Stop)]
    [InlineData(true, HandlerFailureAction.DeadLetter)]
    [InlineData(true, HandlerFailureAction.StopApplication)]
    public async Task Stop_PatienceIsOver_CancelsTheHandlerAndTheMessageIsNotCommitted(
        bool isWrapped, HandlerFailureAction action)
    {
        int exitCode = Environment.ExitCode;
        _script.OnMessage = (message, _, cancellationToken) =>
            message == "1" ? new ValueTask(WaitAsync(cancellationToken)) : default;
        await using TestHost host = MakeHost(services => services.AddMappedFileConsumer<long, LongHandler>(
            "orders", o => (o.AttemptsMax, o.OnFailure) = (1, action)));
        await host.StartAsync();
        Produce(host, 3);
        Eventually.Equal(2, () => _script.Seen.Count);

        using CancellationTokenSource impatience = new();
        Task stopping = host.StopAsync(impatience.Token);
        await impatience.CancelAsync();
        await stopping;

        host.Log.WaitFor(202);
        Assert.Equal(16, Committed(host.Get<MappedFileQueue<long>>("orders").GetInfo()));
        Assert.Equal((0, 0, exitCode), (host.Log.CountOf(204), host.Log.CountOf(206), Environment.ExitCode));
        Assert.False(Directory.Exists(host.StorePath + "-dead-letters"));

        async Task WaitAsync(CancellationToken cancellationToken)
        {
            try
            {
                await Task.Delay(Timeout.Infinite, cancellationToken);
            }
            catch (OperationCanceledException error) when (isWrapped)
            {
                throw new InvalidOperationException("Status: cancelled.", error);
            }
        }
    }

    [Fact]
    public async Task Stop_HandlerEndsWithTheApplication_IsNoRefusal()
    {
        CancellationToken ends = default;
        _script.OnMessage = (_, _, _) => new ValueTask(Task.Delay(Timeout.Infinite, ends));
        await using TestHost host = MakeHost(services => services.AddMappedFileConsumer<long, LongHandler>(
            "orders", options => (options.AttemptsMax, options.OnFailure) = (1, HandlerFailureAction.DeadLetter)));
        ends = host.Provider.GetRequiredService<IHostApplicationLifetime>().ApplicationStopping;
        await host.StartAsync();
        Produce(host, 1);
        Eventually.Equal(1, () => _script.Seen.Count);

        await host.StopAsync();

        Assert.Equal(0, Committed(host.Get<MappedFileQueue<long>>("orders").GetInfo()));
        Assert.Equal((0, 0), (host.Log.CountOf(204), host.Log.CountOf(206)));
        Assert.False(Directory.Exists(host.StorePath + "-dead-letters"));
    }

    /// <summary>
    /// A later service of the application could not start, so the host was disposed without a stop: queues first. Each consumer
    /// said that it stops for good, and hid the error that mattered; a handler that asked for a service made a dead letter.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Start_OfALaterServiceFails_ConsumersEndInOrder(bool withAMessageInHand)
    {
        DisposalGate gate = new();
        TestHost host = new();
        host.Services.AddSingleton(_script).AddSingleton(gate).AddSingleton(_ => new WaitsForTheEnd(gate))
            .AddHostedService<MakesTheGate>()
            .AddMappedFileQueue<long>("orders", options => options.StorePath = host.StorePath)
            .AddMappedFileConsumer<long, GatedHandler>("orders", options =>
            {
                (options.AttemptsMax, options.ScopePerCall) = (1, false);
                options.OnFailure = HandlerFailureAction.DeadLetter;
            })
            .AddHostedService(provider => new FailingService(() =>
            {
                MappedFileQueue<long> queue = provider.GetRequiredKeyedService<MappedFileQueue<long>>("orders");
                if (withAMessageInHand)
                    queue.Producer.Produce(1);
                Eventually.Equal(withAMessageInHand ? 1 : 0, () => _script.Seen.Count);
                host.Log.WaitFor(201);
            }));
        _script.OnMessage = async (_, _, _) =>
        {
            await gate.Begun.Task;
            host.Provider.GetRequiredService<Script>();
        };

        await Assert.ThrowsAsync<NotSupportedException>(host.StartAsync);
        string letters = host.StorePath + "-dead-letters";
        await host.DisposeAsync();

        Assert.True(gate.Ended.Task.IsCompleted);
        Assert.Equal((0, 1, 0), (host.Log.CountOf(204), host.Log.CountOf(202), host.Log.CountOf(206)));
        Assert.False(Directory.Exists(letters));
    }

    [Fact]
    public async Task Stop_BetweenAttempts_DoesNotWaitForThePause()
    {
        _script.OnMessage = (_, _, _) => throw new InvalidOperationException("Never.");
        await using TestHost host = MakeHost(services => services.AddMappedFileConsumer<long, LongHandler>(
            "orders", options => options.RetryDelay = options.RetryDelayMax = TimeSpan.FromDays(1)));
        await host.StartAsync();
        Produce(host, 1);
        host.Log.WaitFor(204);

        await host.StopAsync();

        Assert.Equal(0, Committed(host.Get<MappedFileQueue<long>>("orders").GetInfo()));
    }

    [Fact]
    public async Task Consumer_NameIsHeldElsewhere_StandsByAndTakesOver()
    {
        await using TestHost host = MakeHost(services => services.AddMappedFileConsumer<long, LongHandler>(
            "orders", consumer: "Audit"));
        using MappedFileQueue<long> other = new(new MappedFileQueueOptions { StorePath = host.StorePath });
        MappedFileConsumer<long> holder = other.OpenConsumer("audit");
        await host.StartAsync();
        host.Log.WaitFor(203);
        Produce(host, 2);
        Assert.Equal(0, host.Log.CountOf(201));

        holder.Dispose();

        Eventually.Equal(2, () => _script.Seen.Count);
    }

    [Fact]
    public async Task Start_ConsumerWithoutQueue_SaysWhatIsMissing()
    {
        await using TestHost host = new();
        host.Services.AddMappedFileQueue<long>("orders", options => options.StorePath = host.StorePath);
        host.Services.AddSingleton(_script).AddMappedFileConsumer<long, LongHandler>("bills");

        InvalidOperationException error = await Assert.ThrowsAsync<InvalidOperationException>(host.StartAsync);

        Assert.Contains("name=\"bills\"", error.Message, StringComparison.Ordinal);
    }

    /// <summary>The application started, and its consumer stopped for good with a word about keyed services.</summary>
    [Fact]
    public async Task Start_ConsumerOfAnotherType_SaysWhatTheQueueHolds()
    {
        await using TestHost host = new();
        host.Services.AddMappedFileQueue<int>("orders", options => options.StorePath = host.StorePath);
        host.Services.AddSingleton(_script).AddMappedFileConsumer<long, LongHandler>("orders");

        InvalidOperationException error = await Assert.ThrowsAsync<InvalidOperationException>(host.StartAsync);

        Assert.Contains("takes structs System.Int64, and its queue holds structs System.Int32: name=\"orders\"", error.Message,
            StringComparison.Ordinal);
        Assert.False(Directory.Exists(host.StorePath));
    }

    /// <summary>The second one waited for the name that the first one held, for ever.</summary>
    [Fact]
    public void AddMappedFileConsumer_SameNameTwice_IsRefused()
    {
        ServiceCollection services = new();
        services.AddMappedFileConsumer<long, LongHandler>("orders");
        services.AddMappedFileConsumer<long, LongHandler>("orders", consumer: "audit");

        Assert.Throws<InvalidOperationException>(
            () => services.AddMappedFileConsumer<long, LongHandler>("orders", consumer: "Audit"));
    }

    /// <summary>A letter became a message of the queue, whose letter became a message.</summary>
    [Fact]
    public async Task Start_DeadLettersIntoTheQueueItself_IsRefused()
    {
        await using TestHost host = MakeHost(services => { });
        host.Services.AddMappedFileConsumer<long, LongHandler>(
            "orders", options => options.DeadLetterPath = host.StorePath + Path.DirectorySeparatorChar);

        InvalidOperationException error = await Assert.ThrowsAsync<InvalidOperationException>(host.StartAsync);

        Assert.Contains("MappedFileQueues:orders:Consumer:DeadLetterPath", error.Message, StringComparison.Ordinal);
    }

    private TestHost MakeHost(Action<IServiceCollection> add)
    {
        TestHost host = new();
        host.Services.AddSingleton(_script);
        host.Services.AddMappedFileQueue<long>("orders", options => options.StorePath = host.StorePath);
        add(host.Services);
        return host;
    }

    private static void Produce(TestHost host, int count)
    {
        MappedFileQueue<long> queue = host.Get<MappedFileQueue<long>>("orders");
        for (int i = 0; i < count; i++)
            queue.Producer.Produce(i);
    }

    private static long Committed(MappedFileQueueInfo info) => info.Consumers.SingleOrDefault()?.Offset ?? -1;

    private static List<DeadLetter> ReadLetters(TestHost host)
    {
        List<DeadLetter> letters = [];
        using MappedFileReader reader = MappedFileReader.Open(host.StorePath + "-dead-letters");
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            letters.Add(DeadLetter.Parse(message));
        return letters;
    }

    private sealed class DisposalGate
    {
        public TaskCompletionSource Begun { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

        public TaskCompletionSource Ended { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);
    }

    /// <summary>Is made before the queue is opened, so it is disposed between the queue and the consumers.</summary>
    private sealed class WaitsForTheEnd(DisposalGate gate) : IDisposable
    {
        public void Dispose()
        {
            gate.Begun.SetResult();
            gate.Ended.Task.Wait(TimeSpan.FromSeconds(30), CancellationToken.None);
        }
    }

    private sealed class MakesTheGate(IServiceProvider services) : IHostedService
    {
        public Task StartAsync(CancellationToken cancellationToken) =>
            Task.FromResult(services.GetRequiredService<WaitsForTheEnd>());

        public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;
    }

    private sealed class FailingService(Action before) : IHostedService
    {
        public Task StartAsync(CancellationToken cancellationToken)
        {
            before();
            throw new NotSupportedException("The other service cannot start.");
        }

        public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;
    }

    /// <summary>Its end is that of its consumer.</summary>
    private sealed class GatedHandler(Script script, DisposalGate gate) : IMessageHandler<long>, IDisposable
    {
        public ValueTask HandleAsync(long message, ConsumeContext context, CancellationToken cancellationToken) =>
            script.Play($"{message}", context, cancellationToken);

        public void Dispose() => gate.Ended.TrySetResult();
    }
}
