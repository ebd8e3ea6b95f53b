using System.Collections.Concurrent;
using MappedFileQueues.Hosting;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace MappedFileQueues.Tests.Hosting.Consumers;

/// <summary>How long a handler and its scoped services live, and what its context says.</summary>
public sealed class HandlerScopeTests
{
    private readonly Traces _traces = new();

    /// <summary>
    /// One handler was made for a consumer and disposed by nobody. Its scoped services, a database context for example, were
    /// those of the whole application: one for all messages and all threads.
    /// </summary>
    [Fact]
    public async Task Call_Each_HasAScopeThatIsDisposedAfterIt()
    {
        await using TestHost host = MakeHost(perCall: true);
        await host.StartAsync();
        Produce(host, 3);
        Eventually.Equal(4, () => _traces.Ended.Count);

        // The first attempt of message 1 fails; what it has tracked is not there at the second.
        Assert.Equal([(0, 1), (1, 1), (1, 1), (2, 1)], _traces.Seen);
        Assert.Equal(4, _traces.Ended.Distinct().Count());
        Assert.Empty(_traces.Alive);
    }

    [Fact]
    public async Task ScopePerCall_False_OneHandlerServesUntilTheEnd()
    {
        await using TestHost host = MakeHost(perCall: false);
        await host.StartAsync();
        Produce(host, 3);
        Eventually.Equal(4, () => _traces.Seen.Count);

        Assert.Equal([(0, 1), (1, 2), (1, 3), (2, 4)], _traces.Seen);
        Assert.Empty(_traces.Ended);
        await host.StopAsync();
        Eventually.Equal(1, () => _traces.Ended.Count);
        Assert.Empty(_traces.Alive);
    }

    /// <summary>
    /// A consumer stopped at a message, as `OnFailure` says by default. Its handler could not be disposed, and that ended the
    /// application.
    /// </summary>
    [Fact]
    public async Task ScopePerCall_False_HandlerThatCannotBeDisposed_IsTold()
    {
        await using TestHost host = new();
        host.Services.AddMappedFileQueue<long>("orders", o => o.StorePath = host.StorePath)
            .AddMappedFileConsumer<long, UndisposableHandler>("orders", o => (o.ScopePerCall, o.AttemptsMax) = (false, 1));
        await host.StartAsync();
        Produce(host, 1);

        // One of the message, one of the end.
        Eventually.Equal(2, () => host.Log.CountOf(204));
        Assert.Equal(1, host.Log.CountOf(206));
        Assert.False(
            host.Provider.GetRequiredService<IHostApplicationLifetime>().ApplicationStopping.IsCancellationRequested);
    }

    /// <summary>Otherwise the application would learn of it with its first message.</summary>
    [Fact]
    public async Task Start_ServiceOfTheHandlerIsMissing_Fails()
    {
        await using TestHost host = new();
        host.Services.AddMappedFileQueue<long>("orders", o => o.StorePath = host.StorePath)
            .AddMappedFileConsumer<long, LongHandler>("orders");

        Exception error = await Assert.ThrowsAnyAsync<Exception>(host.StartAsync);

        Assert.Contains(nameof(Script), error.ToString(), StringComparison.Ordinal);
    }

    /// <summary>
    /// Offsets above a cut are used again, so a handler that does its work exactly once needs the epoch, and had to ask the queue
    /// for it. A test could not make a context at all.
    /// </summary>
    [Fact]
    public async Task Context_OfAMessage_HoldsTheEpochAndCanBeMade()
    {
        FaultDisk disk = new();
        long epoch = -1;
        Script script = new() { OnMessage = (_, context, _) => Set(ref epoch, context.Epoch) };
        await using TestHost host = new();
        using (MappedFileQueue<long> before = new(new MappedFileQueueOptions
        {
            StorePath = host.StorePath,
            Durability = DurabilityLevel.PageCache,
        }.UseDisk(disk)))
        {
            before.Producer.Produce(1);
            disk.FailsFlushes = true;
            Assert.ThrowsAny<MappedFileQueueException>(() => before.Flush());
        }

        host.Services.AddSingleton(script)
            .AddMappedFileQueue<long>("orders", o => o.StorePath = host.StorePath)
            .AddMappedFileConsumer<long, LongHandler>("orders");
        await host.StartAsync();
        Eventually.True(() => Volatile.Read(ref epoch) >= 0, "the message is handled");
        Assert.Equal(1, epoch);
        Assert.Equal(1, host.Get<MappedFileQueue<long>>("orders").GetInfo().Epoch);

        ConsumeContext made = new() { QueueName = "orders", Epoch = 7, Offset = 16, NextOffset = 32, Attempt = 2 };
        await new LongHandler(script).HandleAsync(5, made, CancellationToken.None);
        Assert.Equal(7, epoch);
        Assert.Equal(("5", 16L, 32L, 2), script.Seen.Last());
    }

    private TestHost MakeHost(bool perCall)
    {
        TestHost host = new();
        host.Services.AddSingleton(_traces).AddScoped<Work>();
        host.Services.AddMappedFileQueue<long>("orders", o => o.StorePath = host.StorePath)
            .AddMappedFileConsumer<long, TracingHandler>(
                "orders", o => (o.ScopePerCall, o.RetryDelay) = (perCall, TimeSpan.Zero));
        return host;
    }

    private static void Produce(TestHost host, int count)
    {
        for (int i = 0; i < count; i++)
            host.Get<MappedFileQueue<long>>("orders").Producer.Produce(i);
    }

    private static ValueTask Set(ref long place, long value)
    {
        Volatile.Write(ref place, value);
        return default;
    }

    private sealed class Traces
    {
        /// <summary>Each call: the message, and how many calls its scoped service has seen.</summary>
        public ConcurrentQueue<(long Message, int Calls)> Seen { get; } = [];

        public ConcurrentDictionary<Guid, bool> Alive { get; } = [];

        /// <summary>The handlers that were disposed after a call.</summary>
        public ConcurrentQueue<Guid> Ended { get; } = [];
    }

    private sealed class Work
    {
        public int Calls { get; set; }
    }

    private sealed class UndisposableHandler : IMessageHandler<long>, IDisposable
    {
        public ValueTask HandleAsync(long message, ConsumeContext context, CancellationToken cancellationToken) =>
            throw new InvalidOperationException("Never.");

        public void Dispose() => throw new NotSupportedException("Not this one.");
    }

    private sealed class TracingHandler : IMessageHandler<long>, IAsyncDisposable
    {
        private readonly Guid _id = Guid.NewGuid();
        private readonly Traces _traces;
        private readonly Work _work;

        public TracingHandler(Traces traces, Work work)
        {
            (_traces, _work) = (traces, work);
            _traces.Alive[_id] = true;
        }

        public async ValueTask HandleAsync(long message, ConsumeContext context, CancellationToken cancellationToken)
        {
            _traces.Seen.Enqueue((message, ++_work.Calls));
            await Task.Yield();
            if (message == 1 && context.Attempt == 1)
                throw new InvalidOperationException("Not yet.");
        }

        public ValueTask DisposeAsync()
        {
            _traces.Alive.TryRemove(_id, out _);
            // The one that the start makes to see that it can be made has no call.
            if (_work.Calls > 0)
                _traces.Ended.Enqueue(_id);
            return default;
        }
    }
}
