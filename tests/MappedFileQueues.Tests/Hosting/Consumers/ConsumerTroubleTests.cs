using System.Data.Common;
using System.Net;
using System.Net.Sockets;
using MappedFileQueues.Format;
using MappedFileQueues.Hosting;
using MappedFileQueues.Hosting.Consumers;
using MappedFileQueues.Hosting.Telemetry;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Crash;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace MappedFileQueues.Tests.Hosting.Consumers;

/// <summary>Errors that pass hold a consumer up, and do not end it.</summary>
public sealed class ConsumerTroubleTests
{
    private readonly Script _script = new();

    /// <summary>
    /// One moment without a free file descriptor, while the consumer opened the next segment, and it stopped for good, although
    /// the handler had never failed.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Run_NoDescriptorForAWhile_IsOpenedAgainAndRepeatsNothing(bool inBatches)
    {
        FaultyDisk disk = new();
        TaskCompletionSource first = new();
        _script.OnMessage = (message, _, _) => message == "0" ? new ValueTask(first.Task) : default;
        await using TestHost host = MakeHost(o => o.Platform = disk, inBatches: inBatches);
        Produce(host, 600);
        await host.StartAsync();
        Eventually.Equal(1, () => _script.Seen.Count);
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Open && name.EndsWith(".log", StringComparison.Ordinal))
                throw new QueueDiskException("No descriptor left.", DiskErrors.EMFILE, name);
        };
        first.SetResult();

        string told = host.Log.WaitFor(209);
        await ExpectAsync(host, HealthStatus.Unhealthy, "Consumer \"\" (Long", "is held up: No descriptor left.");
        disk.Before = null;
        Eventually.Equal(600, () => _script.Seen.Count);
        host.Log.WaitFor(212);
        await ExpectAsync(host, HealthStatus.Healthy, "is well");

        Assert.Contains("held up by an error of the system", told, StringComparison.Ordinal);
        Assert.Equal(Enumerable.Range(0, 600).Select(number => $"{number}"), _script.Messages);
        Assert.Equal((1, 1, 0), (host.Log.CountOf(201), host.Log.CountOf(209), host.Log.CountOf(206)));
    }

    /// <summary>
    /// A logging provider that threw once, because its disk was full, ended the consumer for good: the exception came out of the
    /// call that told of a refused message.
    /// </summary>
    [Fact]
    public async Task Log_AProviderThrows_TheConsumerContinues()
    {
        int calls = 0;
        _script.OnMessage = (_, _, _) => calls++ == 0 ? throw new InvalidOperationException("Once.") : default;
        await using TestHost host = MakeHost();
        host.Services.AddSingleton<ILoggerProvider, ThrowingProvider>();
        Produce(host, 3);
        await host.StartAsync();

        Eventually.Equal(4, () => _script.Seen.Count);
        await ExpectAsync(host, HealthStatus.Healthy, "is well");
    }

    /// <summary>
    /// A deserializer that failed at the second reading of a message, after its batch was refused, ended the consumer; alone it
    /// made a dead letter.
    /// </summary>
    [Fact]
    public async Task Batch_MessageCannotBeReadAgain_IsADeadLetter()
    {
        _script.OnMessage = (_, _, _) => throw new InvalidOperationException("Refused.");
        await using TestHost host = new();
        host.Services.AddSingleton(_script);
        host.Services.AddMappedFileQueue("orders", o => o.StorePath = host.StorePath);
        host.Services.AddMappedFileBatchConsumer<string, TextBatchHandler>(
            "orders", new FailsAtTheSecondReading(), o => (o.OnFailure, o.AttemptsMax) = (HandlerFailureAction.DeadLetter, 1));
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = host.StorePath }))
        {
            for (int i = 0; i < 3; i++)
                queue.Producer.Produce([(byte)('0' + i)]);
        }

        await host.StartAsync();

        Eventually.Equal(3, () => host.Log.CountOf(205));
        Assert.Equal(0, host.Log.CountOf(206));
    }

    /// <summary>
    /// A function that cast the error to another one's type ended the consumer, and the error of the handler was not told. In a
    /// group the message ended one member after the other, in all processes.
    /// </summary>
    [Theory]
    [InlineData(null)]
    [InlineData("workers")]
    public async Task IsTransient_Throws_IsARefusal(string? group)
    {
        _script.OnMessage = (message, _, _) => message == "0" ? throw new FormatException("Bad.") : default;
        await using TestHost host = MakeHost(configure: o =>
        {
            (o.OnFailure, o.AttemptsMax, o.Group) = (HandlerFailureAction.DeadLetter, 2, group);
            (o.RetryDelay, o.IsTransient) = (TimeSpan.Zero, error => ((DatabaseException)error).IsTransient);
        });
        Produce(host, 3);
        await host.StartAsync();

        host.Log.WaitFor(205);
        Eventually.Equal(4, () => _script.Seen.Count);
        await host.StopAsync();

        Assert.Equal((2, 1, 0), (host.Log.CountOf(204), host.Log.CountOf(205), host.Log.CountOf(206)));
        using var letters = MappedFileReader.Open(host.StorePath + "-dead-letters");
        Assert.True(letters.TryRead(out ReadOnlySpan<byte> letter));
        Assert.Contains("Bad.", DeadLetter.Parse(letter).Error, StringComparison.Ordinal);
    }

    /// <summary>
    /// The messages of a batch that lay before a damaged one were dropped with the call that met it, at each start again. An
    /// operator who stepped over the damage stepped over them too.
    /// </summary>
    [Theory]
    [InlineData("structs")]
    [InlineData("bytes")]
    [InlineData("texts")]
    public async Task Batch_AMessageInItIsDamaged_TheOnesBeforeAreHandled(string kind)
    {
        await using TestHost host = new();
        host.Services.AddSingleton(_script);
        if (kind == "structs")
        {
            host.Services.AddMappedFileQueue<long>("orders", o => o.StorePath = host.StorePath)
                .AddMappedFileBatchConsumer<long, LongBatchHandler>("orders");
            Produce(host, 5);
        }
        else
        {
            host.Services.AddMappedFileQueue("orders", o => o.StorePath = host.StorePath);
            _ = kind == "bytes"
                ? host.Services.AddMappedFileBatchConsumer<ByteBatchHandler>("orders")
                : host.Services.AddMappedFileBatchConsumer<string, TextBatchHandler>("orders", new TextDeserializer());
            using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = host.StorePath });
            for (int i = 0; i < 5; i++)
                queue.Producer.Produce([(byte)('0' + i)]);
        }

        using (var words = new StoreWords(host.StorePath))
            words.WriteAt((3 * 16) + FrameHeader.Size, 0xFF);
        await host.StartAsync();

        host.Log.WaitFor(206);
        Assert.Equal(["0", "1", "2"], _script.Messages);
        await host.StopAsync();
        using var reader = MappedFileReader.Open(host.StorePath);
        Assert.Equal(48, Assert.Single(reader.GetInfo().Consumers).Offset);
    }

    /// <summary>An application that started while the disk was full had no consumer after there was room again.</summary>
    [Theory]
    [InlineData(".cursor", true)]
    [InlineData("control", false)]
    public async Task Start_DiskIsFull_ConsumesOnceThereIsRoom(string noRoomFor, bool opensAtStart)
    {
        FaultyDisk disk = new();
        await using TestHost host = MakeHost(o => (o.Platform, o.OpenAtStart) = (disk, opensAtStart));
        Produce(host, 3);
        disk.Before = (call, name) =>
        {
            if (call is DiskCall.Open or DiskCall.Write && name.Contains(noRoomFor, StringComparison.Ordinal))
                throw new QueueDiskException("No room.", DiskErrors.ENOSPC, name);
        };

        await host.StartAsync();
        host.Log.WaitFor(209);
        await ExpectAsync(host, HealthStatus.Unhealthy, "is held up: No room.");
        disk.Before = null;
        Eventually.Equal(3, () => _script.Seen.Count);
        host.Log.WaitFor(212);

        Assert.Equal((1, 0), (host.Log.CountOf(201), host.Log.CountOf(206)));
    }

    [Fact]
    public async Task Stop_WhileHeldUp_EndsAtOnceAndInOrder()
    {
        FaultDisk disk = new();
        await using TestHost host = MakeHost(
            o => o.UseDisk(disk).OpenAtStart = false, o => o.RetryDelay = o.RetryDelayMax = TimeSpan.FromDays(1));
        Produce(host, 1);
        disk.IsFull = true;
        await host.StartAsync();
        host.Log.WaitFor(209);

        await host.StopAsync();

        Assert.Equal(0, host.Log.CountOf(206));
    }

    /// <summary>
    /// A database that was restarted ended the consumer: its five attempts were over after 1.5 s, and nobody called the handler
    /// again until somebody started the application anew. Health said that the queue is well until then.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Handler_FailsForAWhile_IsCalledUntilItSucceedsAndHealthIsDegraded(bool inBatches)
    {
        bool isDown = true;
        _script.OnMessage = (_, _, _) => Volatile.Read(ref isDown) ? throw new DatabaseException(isTransient: true) : default;
        await using TestHost host = MakeHost(
            configure: o => (o.AttemptsMax, o.RetryDelay) = (1, TimeSpan.Zero), inBatches: inBatches);
        Produce(host, 2);
        await host.StartAsync();

        Eventually.True(() => _script.Seen.Any(seen => seen.Attempt == 3), "the handler is called again");
        await ExpectAsync(host, HealthStatus.Degraded, "fails and is called again: The database restarts.");
        Volatile.Write(ref isDown, false);
        host.Log.WaitFor(212);
        Eventually.True(() => _script.Messages.Contains("1"), "the consumer continues");

        Assert.Equal((1, 0, 0), (host.Log.CountOf(210), host.Log.CountOf(204), host.Log.CountOf(206)));
    }

    /// <summary>Health said that the queue is well while its handler failed again and again.</summary>
    [Fact]
    public async Task Handler_RefusesAMessage_HealthIsDegradedBetweenTheAttempts()
    {
        _script.OnMessage = (_, _, _) => throw new InvalidOperationException("Not yet.");
        await using TestHost host = MakeHost(configure: o => o.RetryDelay = o.RetryDelayMax = TimeSpan.FromDays(1));
        Produce(host, 1);
        await host.StartAsync();
        host.Log.WaitFor(204);

        Eventually.Equal(HealthStatus.Degraded, () => host.CheckHealthAsync().GetAwaiter().GetResult().Status);
    }

    [Fact]
    public void IsTransient_ErrorOfTheWorldOutside_IsToldFromOneOfTheMessage()
    {
        Exception[] passing =
        [
            new TimeoutException(), new SocketException(111), new HttpRequestException("No answer."), new DatabaseException(true),
            new InvalidOperationException("Cannot save.", new DatabaseException(true)),
            new TaskCanceledException("Too slow.", new TimeoutException()),
            new HttpRequestException("", null, HttpStatusCode.ServiceUnavailable),
            new QueueDiskException("Full.", DiskErrors.ENOSPC, "orders"), new IOException("Full.", DiskErrors.ENOSPC),
        ];
        Exception[] lasting =
        [
            new InvalidOperationException(), new FormatException(), new DatabaseException(false),
            new HttpRequestException("", null, HttpStatusCode.BadRequest), new OperationCanceledException(),
            new FileNotFoundException(),
        ];

        Assert.All(passing, error => Assert.True(new HostedConsumerOptions().IsTransient(error)));
        Assert.All(lasting, error => Assert.False(new HostedConsumerOptions().IsTransient(error)));
        Assert.True(PassingErrors.IsOfSystem(new MappedFileQueueException("Cannot start a thread.", new OutOfMemoryException())));
        Assert.False(PassingErrors.IsOfSystem(new QueueCorruptException("Damaged.", "0.log", 0)));
    }

    /// <summary>
    /// A flood of messages that the handler refused went to the dead letters as fast as it could, with two stack traces each: 60
    /// MB of logs in seconds, and a queue in the wrong store when only the handler was wrong.
    /// </summary>
    [Fact]
    public async Task DeadLetters_ManyInARow_ThenEachIsFollowedByAPause()
    {
        _script.OnMessage = (message, _, _) =>
            message == "0" ? default : throw new InvalidOperationException("Never.");
        // One stack a second: on a busy machine the three took longer, so their clock stands still.
        Files.ManualTime time = new();
        await using TestHost host = MakeHost(o => o.TimeProvider = time, o =>
        {
            (o.OnFailure, o.AttemptsMax, o.DeadLettersInRowMax) = (HandlerFailureAction.DeadLetter, 1, 3);
            o.RetryDelay = o.RetryDelayMax = TimeSpan.FromDays(1);
        });
        Produce(host, 100);
        await host.StartAsync();

        string told = host.Log.WaitFor(211);
        await ExpectAsync(host, HealthStatus.Degraded, "pauses: 3 messages in a row went to the dead letters", "Never.");
        await host.StopAsync();

        Assert.Contains("refused 3 messages in a row", told, StringComparison.Ordinal);
        Assert.Equal(["0", "1", "2", "3"], _script.Messages);
        Assert.Equal((3, 3, 0), (host.Log.CountOf(204), host.Log.CountOf(205), host.Log.CountOf(212)));
        Assert.Equal((1, 0), (host.Log.StackCountOf(204), host.Log.StackCountOf(205)));
        Assert.Equal(64, host.Get<MappedFileQueue<long>>("orders").GetInfo().Consumers.Single().Offset);
    }

    /// <summary>Once a message is handled, the next one that is refused is a single one again.</summary>
    [Fact]
    public async Task DeadLetters_AMessageIsHandledInBetween_NoPause()
    {
        _script.OnMessage = (message, _, _) =>
            message[^1] is '0' or '5' ? default : throw new InvalidOperationException("Never.");
        await using TestHost host = MakeHost(configure: o =>
        {
            (o.OnFailure, o.AttemptsMax, o.DeadLettersInRowMax) = (HandlerFailureAction.DeadLetter, 1, 5);
            o.RetryDelay = o.RetryDelayMax = TimeSpan.FromDays(1);
        });
        Produce(host, 20);
        await host.StartAsync();

        Eventually.Equal(20, () => _script.Seen.Count);

        Assert.Equal(0, host.Log.CountOf(211));
    }

    private TestHost MakeHost(
        Action<HostedQueueOptions>? configureQueue = null,
        Action<HostedConsumerOptions>? configure = null,
        bool inBatches = false)
    {
        TestHost host = new();
        host.Services.AddSingleton(_script);
        host.Services.AddMappedFileQueue<long>("orders", options =>
        {
            options.StorePath = host.StorePath;
            configureQueue?.Invoke(options);
        });
        _ = inBatches
            ? host.Services.AddMappedFileBatchConsumer<long, LongBatchHandler>("orders", configure)
            : host.Services.AddMappedFileConsumer<long, LongHandler>("orders", configure);
        host.Services.AddHealthChecks().AddMappedFileQueue("orders", health => health.FreeBytesMin = 0);
        return host;
    }

    /// <summary>Over the ends of segments.</summary>
    private static void Produce(TestHost host, int count)
    {
        using MappedFileQueue<long> queue = new(new MappedFileQueueOptions { StorePath = host.StorePath, SegmentSize = 4096 });
        for (int i = 0; i < count; i++)
            queue.Producer.Produce(i);
    }

    private static async Task ExpectAsync(TestHost host, HealthStatus status, params string[] parts)
    {
        HealthReport report = await host.CheckHealthAsync();
        string text = $"{report.Entries.Values.Single().Description}";
        Assert.All(parts, part => Assert.Contains(part, text, StringComparison.Ordinal));
        Assert.Equal(status, report.Status);
    }

    private sealed class DatabaseException(bool isTransient) : DbException("The database restarts.")
    {
        public override bool IsTransient => isTransient;
    }

    private sealed class ThrowingProvider : ILoggerProvider, ILogger
    {
        public ILogger CreateLogger(string categoryName) => categoryName == QueueLog.Category ? this : NullLogger.Instance;

        public bool IsEnabled(LogLevel logLevel) => true;

        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public void Log<TState>(
            LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
            throw new IOException("The log's disk is full.");

        public void Dispose()
        {
        }
    }

    private sealed class FailsAtTheSecondReading : IMessageDeserializer<string>
    {
        private readonly Dictionary<string, int> _readings = [];

        public string Deserialize(ReadOnlySpan<byte> bytes)
        {
            string text = System.Text.Encoding.UTF8.GetString(bytes);
            _readings[text] = _readings.GetValueOrDefault(text) + 1;
            return _readings[text] == 2 ? throw new InvalidDataException("The registry is away.") : text;
        }
    }
}
