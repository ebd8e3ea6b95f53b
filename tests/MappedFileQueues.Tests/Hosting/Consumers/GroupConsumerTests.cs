using System.Collections.Concurrent;
using System.Diagnostics;
using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Hosting;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;

namespace MappedFileQueues.Tests.Hosting.Consumers;

/// <summary>Members of groups as background services: who gets what, and what becomes of what a handler refuses.</summary>
public sealed class GroupConsumerTests
{
    private readonly Script _script = new();

    [Theory]
    [InlineData("structs")]
    [InlineData("struct batches")]
    [InlineData("bytes")]
    [InlineData("byte batches")]
    [InlineData("texts")]
    [InlineData("text batches")]
    public async Task Group_ThreeMembers_HandleEachMessageOnce(string kind)
    {
        await using TestHost host = MakeHost(kind, options => options.Concurrency = 3);
        await host.StartAsync();
        long[] offsets = Produce(host, kind, 1000);
        Eventually.True(() => GroupOf(host, kind) is { Lag: 0 }, "all are done");
        Eventually.Equal(3, () => host.Log.CountOf(201));
        await host.StopAsync();

        Assert.Equal(Enumerable.Range(0, 1000).Select(number => $"{number}").Order(), _script.Messages.Order());
        Assert.Equal(3, host.Log.CountOf(202));
        if (!kind.Contains("batches", StringComparison.Ordinal))
            Assert.Equal(offsets, _script.Seen.Select(seen => seen.Offset).Order());
        Assert.Empty(InfoOf(host, kind).Consumers);
    }

    /// <summary>No call ends before as many have begun as there are members.</summary>
    [Fact]
    public async Task Group_Concurrency_IsHowManyHandlersRunAtOnce()
    {
        const int Members = 5;
        TaskCompletionSource allRun = new(TaskCreationOptions.RunContinuationsAsynchronously);
        int running = 0;
        _script.OnMessage = (_, _, _) =>
        {
            if (Interlocked.Increment(ref running) == Members)
                allRun.SetResult();
            return new ValueTask(allRun.Task);
        };
        await using TestHost host = MakeHost("structs", options => options.Concurrency = Members);
        await host.StartAsync();
        Produce(host, "structs", Members);

        await allRun.Task.WaitAsync(Eventually.DefaultDeadline, TestContext.Current.CancellationToken);
        Eventually.True(() => GroupOf(host) is { Lag: 0 }, "all are done");
    }

    [Fact]
    public async Task Handler_FailsTwice_GetsTheMessageAgainAndCountsDeliveries()
    {
        ConcurrentQueue<int> deliveries = [];
        _script.OnMessage = (message, context, _) =>
        {
            if (message != "1")
                return default;
            deliveries.Enqueue(context.DeliveryCount);
            return context.DeliveryCount < 3 ? throw new InvalidOperationException("Not yet.") : default;
        };
        await using TestHost host = MakeHost("structs", options => options.RetryDelay = TimeSpan.FromMilliseconds(1));
        await host.StartAsync();
        Produce(host, "structs", 3);
        Eventually.True(() => GroupOf(host) is { Lag: 0 }, "all are done");

        Assert.Equal([1, 2, 3], deliveries);
        Assert.Equal(5, _script.Seen.Count);
        Assert.All(_script.Seen, seen => Assert.Equal((0, 1), (seen.NextOffset, seen.Attempt)));
        Assert.Equal(2, host.Log.CountOf(204));
    }

    [Fact]
    public async Task Handler_FailsAlways_TheMessageGoesToTheLettersWithItsErrorAndHeaders()
    {
        _script.OnMessage = (message, _, _) => message == "1" ? throw new FormatException("Never.") : default;
        await using TestHost host = MakeHost("structs", options =>
            (options.RetryDelay, options.AttemptsMax) = (TimeSpan.Zero, 3));
        await host.StartAsync();
        MappedFileQueue<long> queue = host.Get<MappedFileQueue<long>>("orders");
        queue.Producer.Produce(0);
        long offset = queue.Producer.Produce(1, new ProduceOptions { Headers = new MessageHeaders { Key = new byte[] { 7 } } });
        queue.Producer.Produce(2);
        Eventually.True(() => GroupOf(host) is { Lag: 0 }, "all are done");
        await host.StopAsync();

        (DeadLetter letter, MessageHeaders? headers) = Assert.Single(ReadLetters(host.StorePath + "-dead-letters"));
        Assert.Equal(1, BitConverter.ToInt64(letter.Message.Span));
        Assert.Equal((offset, 3, "workers", "Never."), (letter.Offset, letter.Attempts, letter.Consumer, letter.Error));
        Assert.Equal(typeof(FormatException).FullName, letter.ErrorType);
        Assert.Equal([7], headers!.Key.ToArray());
        Assert.Equal(["0", "1", "1", "1", "2"], _script.Messages.Order());
        Assert.Contains("group/workers", host.Log.WaitFor(205), StringComparison.Ordinal);
    }

    /// <summary>
    /// The letter was never written, and the group's member ended; a consumer without a group, too, while its calls were traced.
    /// </summary>
    [Theory]
    [InlineData("workers")]
    [InlineData(null)]
    public async Task Handler_TextOfItsErrorThrows_TheMessageGoesToTheLetters(string? group)
    {
        using ActivityListener listener = new()
        {
            ShouldListenTo = source => source.Name == "MappedFileQueues",
            Sample = (ref _) => ActivitySamplingResult.AllDataAndRecorded,
        };
        ActivitySource.AddActivityListener(listener);
        _script.OnMessage = (message, _, _) => message == "1" ? throw new TextThrows() : default;
        await using TestHost host = MakeHost(
            "structs",
            options => (options.RetryDelay, options.AttemptsMax, options.DeadLettersInRowMax, options.OnFailure)
                = (TimeSpan.Zero, 2, 1, HandlerFailureAction.DeadLetter),
            group: group);
        await host.StartAsync();
        Produce(host, "structs", 3);
        Eventually.True(() => _script.Messages.Contains("2"), "the next message is handled");
        await host.StopAsync();

        (DeadLetter letter, _) = Assert.Single(ReadLetters(host.StorePath + "-dead-letters"));
        Assert.Equal(typeof(TextThrows).FullName, letter.ErrorType);
        Assert.Contains("text cannot be had", letter.Error, StringComparison.Ordinal);
    }

    /// <summary>The cause is mended, and the letter goes back to the group, as a message that nobody had before.</summary>
    [Fact]
    public async Task DeadLetter_IsRetried_TheGroupHandlesItsMessage()
    {
        bool isMended = false;
        ConcurrentQueue<int> deliveries = [];
        _script.OnMessage = (message, context, _) =>
        {
            if (message == "1" && !Volatile.Read(ref isMended))
                throw new FormatException("Not yet.");
            deliveries.Enqueue(context.DeliveryCount);
            return default;
        };
        await using TestHost host = MakeHost(
            "structs", options => (options.RetryDelay, options.AttemptsMax) = (TimeSpan.Zero, 2));
        await host.StartAsync();
        Produce(host, "structs", 3);
        Eventually.True(() => GroupOf(host) is { Lag: 0 }, "all are done");
        Volatile.Write(ref isMended, true);
        DeadLetterStore letters = new(new MappedFileQueueOptions { StorePath = host.StorePath + "-dead-letters" });

        Assert.Equal(1, letters.Retry(host.Get<MappedFileQueue<long>>("orders"), letter => letter.Consumer == "workers"));

        Eventually.True(() => GroupOf(host) is { Lag: 0 }, "all are done");
        Assert.Equal(["0", "1", "1", "1", "2"], _script.Messages.Order());
        Assert.Equal([1, 1, 1], deliveries);
        Assert.Empty(letters.Read());
    }

    [Theory]
    [InlineData("struct batches")]
    [InlineData("byte batches")]
    [InlineData("text batches")]
    public async Task Batch_OneBadMessage_GoesToTheLettersAlone(string kind)
    {
        _script.OnMessage = (message, _, _) => message == "40" ? throw new FormatException("Never.") : default;
        await using TestHost host = MakeHost(kind, options =>
            (options.RetryDelay, options.AttemptsMax, options.BatchLengthMax) = (TimeSpan.Zero, 3, 64));
        Produce(host, kind, 64);
        await host.StartAsync();
        Eventually.True(() => GroupOf(host, kind) is { Lag: 0 }, "all are done");
        await host.StopAsync();

        Assert.Equal("40", Text(kind, Assert.Single(ReadLetters(host.StorePath + "-dead-letters")).Letter.Message));
        Assert.Equal(64, _script.Messages.Distinct().Count());
        // Those before it were handled in the batch, and again; the bad one at each delivery.
        Assert.Equal(3, _script.Messages.Count(message => message == "40"));
        Assert.Equal(Enumerable.Repeat(1, 65).Prepend(64), _script.Batches);
    }

    [Fact]
    public async Task Batch_OnlyOneAttempt_EachMessageHasItsOwn()
    {
        _script.OnMessage = (message, _, _) => message == "4" ? throw new FormatException("Never.") : default;
        await using TestHost host = MakeHost("struct batches", options => options.AttemptsMax = 1);
        Produce(host, "struct batches", 8);
        await host.StartAsync();
        Eventually.True(() => GroupOf(host) is { Lag: 0 }, "all are done");

        Assert.Equal(4, BitConverter.ToInt64(Assert.Single(ReadLetters(host.StorePath + "-dead-letters")).Letter.Message.Span));
        Assert.Equal([8, 1, 1, 1, 1, 1, 1, 1, 1], _script.Batches);
    }

    [Theory]
    [InlineData("texts")]
    [InlineData("text batches")]
    public async Task Bytes_ThatCannotBeRead_AreNotTriedAgain(string kind)
    {
        await using TestHost host = MakeHost(kind);
        MappedFileQueue queue = host.Get<MappedFileQueue>("orders");
        foreach (string text in new[] { "a", "b", "!", "c" })
            queue.Producer.Produce(System.Text.Encoding.UTF8.GetBytes(text));
        await host.StartAsync();
        Eventually.True(() => GroupOf(host, kind) is { Lag: 0 }, "all are done");
        await host.StopAsync();

        Assert.Equal(["a", "b", "c"], _script.Messages);
        DeadLetter letter = Assert.Single(ReadLetters(host.StorePath + "-dead-letters")).Letter;
        Assert.Equal(("!", 32L, 1), (Text(kind, letter.Message), letter.Offset, letter.Attempts));
    }

    [Fact]
    public async Task Handler_FailsWithAnErrorThatPasses_KeepsTheMessageAndCountsNoDelivery()
    {
        int calls = 0;
        _script.OnMessage = (_, _, _) => ++calls < 4 ? throw new TimeoutException("Later.") : default;
        await using TestHost host = MakeHost("structs", options =>
            (options.RetryDelay, options.AttemptsMax) = (TimeSpan.Zero, 1));
        await host.StartAsync();
        Produce(host, "structs", 1);
        Eventually.True(() => GroupOf(host) is { Lag: 0 }, "it is done");

        Assert.Equal([1, 2, 3, 4], _script.Seen.Select(seen => seen.Attempt));
        Assert.Equal(0, GroupOf(host)!.GivenBackCount);
        Assert.Equal(1, host.Log.CountOf(210));
        host.Log.WaitFor(212);
    }

    /// <summary>The others of the group continue; health names the handler, its message and since when.</summary>
    [Fact]
    public async Task Handler_Hangs_IsNamedAndTheOthersContinue()
    {
        TaskCompletionSource release = new();
        _script.OnMessage = (message, _, _) => message == "2" ? new ValueTask(release.Task) : default;
        await using TestHost host = MakeHost("structs", options =>
            (options.Concurrency, options.HandlerTimeMax) = (2, TimeSpan.FromMilliseconds(1)));
        host.Services.AddHealthChecks().AddMappedFileQueue("orders", health => health.FreeBytesMin = 0);
        await host.StartAsync();
        long[] offsets = Produce(host, "structs", 100);
        // The others may need less than a millisecond, and the handler has not hung for longer then.
        Eventually.True(() => GroupOf(host) is { OutCount: 1 } && _script.Seen.Count == 100, "the others are done");
        await Task.Delay(2);
        HealthReport report = await host.CheckHealthAsync();

        Assert.Equal(HealthStatus.Unhealthy, report.Status);
        string text = report.Entries.Values.Single().Description!;
        Assert.Contains(
            "Handler LongHandler of consumer \"group/workers\" has not returned for 00:00:0", text, StringComparison.Ordinal);
        Assert.Contains($"offset={offsets[2]}.", text, StringComparison.Ordinal);
        Assert.Equal(offsets[2], GroupOf(host)!.FloorOffset);
        Assert.Contains("consumer \"group/workers\"", host.Log.WaitFor(207), StringComparison.Ordinal);
        release.SetResult();
        Eventually.True(() => GroupOf(host) is { Lag: 0 }, "all are done");
    }

    /// <summary>Both have the group's name, and the data of health showed the later one alone.</summary>
    [Fact]
    public async Task Health_TwoConsumersOfOneGroup_ShowsBoth()
    {
        await using TestHost host = MakeHost("structs");
        host.Services.AddMappedFileConsumer<long, LongHandler>("orders", options => options.Group = "workers", "others");
        host.Services.AddHealthChecks().AddMappedFileQueue("orders", health => health.FreeBytesMin = 0);
        await host.StartAsync();
        Eventually.Equal(2, () => host.Log.CountOf(201));
        HealthReport report = await host.CheckHealthAsync();

        object shown = report.Entries.Values.Single().Data["consumer:group/workers"];
        Assert.Equal(2, Assert.IsType<string>(shown).Split(", ").Length);
    }

    /// <summary>Somebody else gets the message; the handler that returns at last is not the one that ends it.</summary>
    [Fact]
    public async Task Handler_ReturnsAfterAFence_IsToldAndContinues()
    {
        TaskCompletionSource release = new(TaskCreationOptions.RunContinuationsAsynchronously);
        _script.OnMessage = (message, context, _) =>
            message == "0" && context.DeliveryCount == 1 ? new ValueTask(release.Task) : default;
        await using TestHost host = MakeHost("structs");
        await host.StartAsync();
        Produce(host, "structs", 1);
        Eventually.Equal(1, () => _script.Seen.Count);
        int slot = Assert.Single(GroupOf(host)!.Members).Slot;
        using (StoreEngine engine = new(
            new MappedFileQueueOptions { StorePath = host.StorePath }, StoreKind.Struct, sizeof(long),
            StructLayoutFingerprint.Of<long>()))
        {
            Assert.Equal(1, engine.FenceGroupMember("workers", slot));
        }

        release.SetResult();
        host.Log.WaitFor(213);
        Produce(host, "structs", 2);
        Eventually.True(() => GroupOf(host) is { Lag: 0 }, "all are done");

        Assert.Equal(["0", "0", "0", "1"], _script.Messages.Order());
        Assert.Equal(0, host.Log.CountOf(206));
    }

    /// <summary>
    /// A handler refused a batch that an operator had taken away. The member was told at the first message that all of the
    /// record were gone; giving the second one back was an error of its arguments, and the member stopped for good.
    /// </summary>
    [Theory]
    [InlineData("struct batches", 5)]
    [InlineData("byte batches", 5)]
    [InlineData("byte batches", 1)]
    public async Task Handler_RefusesABatchAfterAFence_IsToldAndContinues(string kind, int attemptsMax)
    {
        TaskCompletionSource release = new(TaskCreationOptions.RunContinuationsAsynchronously);
        int calls = 0;
        _script.OnMessage = async (_, _, _) =>
        {
            if (Interlocked.Increment(ref calls) > 1)
                return;
            await release.Task;
            throw new InvalidOperationException("Not this one.");
        };
        await using TestHost host = MakeHost(kind, options => options.AttemptsMax = attemptsMax);
        Produce(host, kind, 4);
        await host.StartAsync();
        Eventually.Equal(1, () => _script.Seen.Count);
        int slot = Assert.Single(GroupOf(host, kind)!.Members).Slot;
        bool isStruct = kind.StartsWith("struct", StringComparison.Ordinal);
        using (StoreEngine engine = new(
            new MappedFileQueueOptions { StorePath = host.StorePath }, isStruct ? StoreKind.Struct : StoreKind.Messages,
            isStruct ? sizeof(long) : 0, isStruct ? StructLayoutFingerprint.Of<long>() : 0))
        {
            Assert.Equal(1, engine.FenceGroupMember("workers", slot));
        }

        release.SetResult();
        host.Log.WaitFor(213);
        Eventually.True(() => GroupOf(host, kind) is { Lag: 0 }, "all are done");

        Assert.Equal(0, host.Log.CountOf(206));
        // One that may be delivered once became a letter, at its second delivery.
        IEnumerable<string> letters = attemptsMax > 1
            ? []
            : ReadLetters(host.StorePath + "-dead-letters").Select(letter => Text(kind, letter.Letter.Message));
        Assert.Equal(["0", "1", "2", "3"], _script.Messages.Concat(letters).Distinct().Order());
    }

    /// <summary>The same with a message that ended the batch because it cannot be read: it was to become a letter.</summary>
    [Fact]
    public async Task Batch_EndsWithAnUnreadableMessageAndIsFenced_TheMemberContinues()
    {
        TaskCompletionSource release = new(TaskCreationOptions.RunContinuationsAsynchronously);
        _script.OnMessage = (_, _, _) => new ValueTask(release.Task);
        await using TestHost host = MakeHost("text batches");
        Produce(host, "text batches", 2);
        host.Get<MappedFileQueue>("orders").Producer.Produce("!"u8);
        await host.StartAsync();
        Eventually.Equal(1, () => _script.Seen.Count);
        int slot = Assert.Single(GroupOf(host, "text batches")!.Members).Slot;
        using (StoreEngine engine = new(new MappedFileQueueOptions { StorePath = host.StorePath }, StoreKind.Messages, 0, 0))
            Assert.Equal(1, engine.FenceGroupMember("workers", slot));

        release.SetResult();
        Eventually.True(() => GroupOf(host, "text batches") is { Lag: 0 }, "all are done");

        Assert.Equal((0, 1), (host.Log.CountOf(206), host.Log.CountOf(205)));
        Assert.Equal(["0", "1"], _script.Messages.Distinct().Order());
    }

    /// <summary>What is in a handler's hands is finished and acknowledged; nothing else is begun, and nothing is lost.</summary>
    [Theory]
    [InlineData("structs", 1)]
    [InlineData("struct batches", 4)]
    [InlineData("byte batches", 4)]
    public async Task Stop_HandlersAreBusy_FinishWhatTheyHaveAndGiveTheRestBack(string kind, int each)
    {
        const int Count = 20;
        TaskCompletionSource release = new(TaskCreationOptions.RunContinuationsAsynchronously);
        _script.OnMessage = (_, _, _) => new ValueTask(release.Task);
        await using TestHost host = MakeHost(kind, options => (options.Concurrency, options.BatchLengthMax) = (2, 4));
        long[] offsets = Produce(host, kind, Count);
        await host.StartAsync();
        Eventually.Equal(2, () => _script.Seen.Count);
        Task stopping = host.StopAsync(TestContext.Current.CancellationToken);
        release.SetResult();
        await stopping;

        Assert.Equal(2 * each, _script.Seen.Count);
        Assert.Equal(2, host.Log.CountOf(202));
        MappedFileGroupInfo group = GroupOf(host, kind)!;
        Assert.Equal((offsets[2 * each], 0, 0), (group.FloorOffset, group.OutCount, group.GivenBackCount));
    }

    /// <summary>The whole batch comes again, each message alone, and none looks as if a handler had refused it.</summary>
    [Fact]
    public async Task Stop_PatienceIsOverInABatch_GivesItBackWithoutADelivery()
    {
        _script.OnMessage = (_, _, cancellationToken) => new ValueTask(Task.Delay(Timeout.Infinite, cancellationToken));
        await using TestHost host = MakeHost("struct batches", options => options.BatchLengthMax = 8);
        MappedFileQueue<long> queue = host.Get<MappedFileQueue<long>>("orders");
        Produce(host, "struct batches", 10);
        await host.StartAsync();
        Eventually.Equal(1, () => _script.Seen.Count);

        using CancellationTokenSource impatience = new();
        Task stopping = host.StopAsync(impatience.Token);
        await impatience.CancelAsync();
        await stopping;
        host.Log.WaitFor(202);

        using MappedFileGroupMember<long> next = queue.OpenGroupMember("workers");
        List<(long, int)> messages = [];
        while (next.TryConsume(out long message))
            messages.Add((message, next.DeliveryCount));
        Assert.Equal([8], _script.Batches);
        Assert.Equal(Enumerable.Range(0, 10).Select(number => ((long)number, 1)), messages.Order());
    }

    [Fact]
    public async Task Stop_PatienceIsOver_GivesTheMessageBackWithoutADelivery()
    {
        _script.OnMessage = (_, _, cancellationToken) => new ValueTask(Task.Delay(Timeout.Infinite, cancellationToken));
        await using TestHost host = MakeHost("structs", options => options.Concurrency = 2);
        await host.StartAsync();
        MappedFileQueue<long> queue = host.Get<MappedFileQueue<long>>("orders");
        Produce(host, "structs", 3);
        Eventually.Equal(2, () => _script.Seen.Count);

        using CancellationTokenSource impatience = new();
        Task stopping = host.StopAsync(impatience.Token);
        await impatience.CancelAsync();
        await stopping;
        Eventually.Equal(2, () => host.Log.CountOf(202));

        using MappedFileGroupMember<long> next = queue.OpenGroupMember("workers");
        List<long> messages = [];
        while (next.TryConsume(out long message))
        {
            messages.Add(message);
            Assert.Equal(1, next.DeliveryCount);
        }

        Assert.Equal([0, 1, 2], messages);
        Assert.Equal(0, host.Log.CountOf(206));
    }

    /// <summary>A handler whose own call ends with the application has not refused its message.</summary>
    [Theory]
    [InlineData("structs")]
    [InlineData("struct batches")]
    public async Task Stop_HandlerEndsWithTheApplication_GivesTheMessageBackWithoutADelivery(string kind)
    {
        CancellationToken ends = default;
        _script.OnMessage = (_, _, _) => new ValueTask(Task.Delay(Timeout.Infinite, ends));
        await using TestHost host = MakeHost(kind, options => options.AttemptsMax = 1);
        ends = host.Provider.GetRequiredService<IHostApplicationLifetime>().ApplicationStopping;
        MappedFileQueue<long> queue = host.Get<MappedFileQueue<long>>("orders");
        Produce(host, kind, 3);
        await host.StartAsync();
        Eventually.Equal(1, () => _script.Seen.Count);
        await host.StopAsync();

        Assert.Equal((0, 1, 0), (host.Log.CountOf(204), host.Log.CountOf(202), host.Log.CountOf(206)));
        Assert.False(Directory.Exists(host.StorePath + "-dead-letters"));
        using MappedFileGroupMember<long> next = queue.OpenGroupMember("workers");
        Assert.True(next.TryConsume(out long message));
        Assert.Equal((0, 1), (message, next.DeliveryCount));
    }

    /// <summary>A file is where the folder of the letters should be, until it is removed.</summary>
    [Fact]
    public async Task DeadLetter_CannotBeAppended_StopsThatMessageOnly()
    {
        _script.OnMessage = (message, _, _) => message == "1" ? throw new FormatException("Never.") : default;
        string letters = "";
        await using TestHost host = MakeHost("structs", options =>
            (options.RetryDelay, options.AttemptsMax, options.DeadLetterPath) = (TimeSpan.Zero, 1, letters));
        letters = host.StorePath + "-letters";
        host.Services.AddHealthChecks().AddMappedFileQueue("orders", health => health.FreeBytesMin = 0);
        File.WriteAllText(letters, "");
        await host.StartAsync();
        Produce(host, "structs", 100);
        host.Log.WaitFor(208);
        Eventually.Equal(100, () => _script.Seen.Count);
        Eventually.True(() => GroupOf(host) is { OutCount: 0, ReturnedCount: 1 }, "the others are done");
        HealthReport report = await host.CheckHealthAsync();
        File.Delete(letters);
        Eventually.True(() => GroupOf(host) is { Lag: 0 }, "all are done");

        Assert.Equal(HealthStatus.Degraded, report.Status);
        Assert.Contains(
            "Consumer \"group/workers\" (LongHandler) cannot append a dead letter", report.Entries.Values.Single().Description,
            StringComparison.Ordinal);
        // The second delivery was without a call: the first one had used the attempts up.
        Assert.Equal(100, _script.Seen.Count);
        Assert.Equal(1, BitConverter.ToInt64(Assert.Single(ReadLetters(letters)).Letter.Message.Span));
    }

    [Fact]
    public async Task DeadLetters_ManyInARow_MakeTheMemberPause()
    {
        _script.OnMessage = (_, _, _) => throw new FormatException("Never.");
        await using TestHost host = MakeHost("structs", options =>
            (options.AttemptsMax, options.DeadLettersInRowMax, options.RetryDelayMax) = (1, 2, TimeSpan.FromDays(1)));
        await host.StartAsync();
        Produce(host, "structs", 3);

        Assert.Contains("group/workers", host.Log.WaitFor(211), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Start_SettingsOfAGroup_AreReadFromConfiguration()
    {
        await using TestHost host = MakeHost("structs", group: null);
        host.Configure(
            ("MappedFileQueues:orders:Consumer:Group", "Workers"), ("MappedFileQueues:orders:Consumer:Concurrency", "2"));
        await host.StartAsync();
        Produce(host, "structs", 10);
        Eventually.True(() => GroupOf(host) is { Lag: 0 }, "all are done");

        Assert.Equal("workers", GroupOf(host)!.Name);
        Eventually.Equal(2, () => host.Log.CountOf(201));
    }

    [Theory]
    [InlineData("Consumer:Concurrency is 2, and a consumer handles one message after the other. Set Group", "Concurrency=2")]
    [InlineData("Consumer:Concurrency must be between 1 and 256", "Group=a", "Concurrency=300")]
    [InlineData("Consumer:Concurrency is a whole number, not 'many'.", "Group=a", "Concurrency=many")]
    [InlineData("Consumer:Group is not empty, and " + StoreNames.NameRule + ": 'a/b'.", "Group=a/b")]
    [InlineData("Consumer:Group is not empty, and up to 100 characters", "Group=")]
    [InlineData("Consumer:OnFailure is Stop, and a message that its group gives up", "Group=a", "OnFailure=Stop")]
    [InlineData("Consumer:OnFailure is StopApplication, and a message", "Group=a", "OnFailure=StopApplication")]
    [InlineData("Consumer:AttemptsMax must be from 1 to 62 in a group: 63.", "Group=a", "AttemptsMax=63")]
    [InlineData("Consumer:BatchLengthMax must be from 1 to 4096 in a group: 4097.", "Group=a", "BatchLengthMax=4097")]
    [InlineData("Consumer:Members is no option.", "Group=a", "Members=2")]
    [InlineData("Consumers:mail:Concurrency is 2, and a consumer handles one message", "mail:Concurrency=2")]
    [InlineData("Consumers:mail:Concurency is no option. Did you mean Concurrency?", "mail:Group=a", "mail:Concurency=2")]
    [InlineData("Consumer:Group is not empty, and up to 100 characters", "Group=nul")]
    [InlineData("Consumers:mail:Group is not empty, and up to 100 characters", "mail:Group=a b")]
    public async Task Start_WrongSettings_NameTheKey(string sentence, params string[] settings)
    {
        await using TestHost host = MakeHost("structs", group: null);
        host.Services.AddMappedFileConsumer<long, LongHandler>("orders", consumer: "mail");
        host.Configure(settings.Select(setting => (
            $"MappedFileQueues:orders:{(setting.StartsWith("mail:", StringComparison.Ordinal) ? "Consumers" : "Consumer")}:"
                + setting.Split('=')[0],
            setting.Split('=')[1])));

        Exception error = await Assert.ThrowsAnyAsync<Exception>(host.StartAsync);

        Assert.Contains($"MappedFileQueues:orders:{sentence}", error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Factory_StartConsumerOfAGroup_HandlesItsMessagesUntilTheQueueIsClosed()
    {
        await using TestHost host = new();
        host.Services.AddSingleton(_script).AddScoped<LongHandler>().AddMappedFileQueueFactory();
        await host.StartAsync();
        MappedFileQueueFactory factory = host.Provider.GetRequiredService<MappedFileQueueFactory>();
        MappedFileQueue<long> queue = factory.Open<long>("orders", options => options.StorePath = host.StorePath);
        await factory.StartConsumerAsync<long, LongHandler>(
            "orders", options => (options.Group, options.Concurrency) = ("workers", 2));
        queue.Producer.ProduceBatch([1, 2, 3]);
        Eventually.True(() => queue.GetInfo().Groups is [{ Lag: 0 }], "all are done");

        Eventually.Equal(2, () => host.Log.CountOf(201));
        Assert.True(await factory.CloseAsync("orders", TestContext.Current.CancellationToken));
        Assert.Equal(2, host.Log.CountOf(202));
    }

    /// <summary>Nothing saves the group in the background.</summary>
    [Fact]
    public async Task DurableCommits_AfterTheHandler_TheGroupIsSaved()
    {
        await using TestHost host = MakeHost(
            "structs", options => options.DurableCommits = true, queue => queue.FlushInterval = Timeout.InfiniteTimeSpan);
        string saved = Path.Combine(host.StorePath, "offset", "groups", "workers.saved");
        await host.StartAsync();
        Eventually.True(() => File.Exists(saved), "the group is made");
        byte[] before = await File.ReadAllBytesAsync(saved, TestContext.Current.CancellationToken);
        Produce(host, "structs", 1);
        Eventually.True(() => GroupOf(host) is { Lag: 0 }, "it is done");

        Eventually.True(() => !before.AsSpan().SequenceEqual(File.ReadAllBytes(saved)), "the group is saved");
    }

    /// <summary>As many messages wait as a group has room for; what is refused then has its next attempts at once.</summary>
    [Fact]
    [Trait("Category", "Slow")]
    public async Task Handler_RefusesMoreThanAGroupHasRoomFor_TheRestGoesToTheLetters()
    {
        const int Room = 8192;
        _script.OnMessage = (_, _, _) => throw new FormatException("Never.");
        await using TestHost host = MakeHost("structs", options =>
        {
            (options.AttemptsMax, options.RetryDelayMax, options.DeadLettersInRowMax) = (2, TimeSpan.FromDays(1), 100);
            options.RetryDelay = TimeSpan.FromHours(1);
        });
        Produce(host, "structs", Room);
        await host.StartAsync();
        Eventually.Equal(Room, () => GroupOf(host)?.ReturnedCount);
        host.Get<MappedFileQueue<long>>("orders").Producer.Produce(Room);

        Eventually.Equal(Room + 1, () => _script.Seen.Count);
        Assert.Equal(Room, GroupOf(host)!.ReturnedCount);
    }

    private TestHost MakeHost(
        string kind, Action<HostedConsumerOptions>? configure = null, Action<HostedQueueOptions>? configureQueue = null,
        string? group = "workers")
    {
        TestHost host = new();
        host.Services.AddSingleton(_script);
        Action<HostedQueueOptions> open = options =>
        {
            options.StorePath = host.StorePath;
            configureQueue?.Invoke(options);
        };
        Action<HostedConsumerOptions> join = options =>
        {
            options.Group = group ?? options.Group;
            configure?.Invoke(options);
        };
        if (kind.StartsWith("struct", StringComparison.Ordinal))
            host.Services.AddMappedFileQueue<long>("orders", open);
        else
            host.Services.AddMappedFileQueue("orders", open);
        _ = kind switch
        {
            "structs" => host.Services.AddMappedFileConsumer<long, LongHandler>("orders", join),
            "struct batches" => host.Services.AddMappedFileBatchConsumer<long, LongBatchHandler>("orders", join),
            "bytes" => host.Services.AddMappedFileConsumer<ByteHandler>("orders", join),
            "byte batches" => host.Services.AddMappedFileBatchConsumer<ByteBatchHandler>("orders", join),
            "texts" => host.Services.AddMappedFileConsumer<string, TextHandler>("orders", new TextDeserializer(), join),
            _ => host.Services.AddMappedFileBatchConsumer<string, TextBatchHandler>("orders", new TextDeserializer(), join),
        };
        return host;
    }

    private static long[] Produce(TestHost host, string kind, int count) => kind.StartsWith("struct", StringComparison.Ordinal)
        ? [.. Enumerable.Range(0, count).Select(number => host.Get<MappedFileQueue<long>>("orders").Producer.Produce(number))]
        : [.. Enumerable.Range(0, count).Select(number => host.Get<MappedFileQueue>("orders").Producer.Produce(
            System.Text.Encoding.UTF8.GetBytes($"{number}")))];

    private static MappedFileQueueInfo InfoOf(TestHost host, string kind) => kind.StartsWith("struct", StringComparison.Ordinal)
        ? host.Get<MappedFileQueue<long>>("orders").GetInfo()
        : host.Get<MappedFileQueue>("orders").GetInfo();

    private static MappedFileGroupInfo? GroupOf(TestHost host, string kind = "structs") =>
        InfoOf(host, kind).Groups.SingleOrDefault();

    private static string Text(string kind, ReadOnlyMemory<byte> message) => kind.StartsWith("struct", StringComparison.Ordinal)
        ? $"{BitConverter.ToInt64(message.Span)}"
        : System.Text.Encoding.UTF8.GetString(message.Span);

    private static List<(DeadLetter Letter, MessageHeaders? Headers)> ReadLetters(string path)
    {
        List<(DeadLetter, MessageHeaders?)> letters = [];
        using MappedFileReader reader = MappedFileReader.Open(path);
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            letters.Add((DeadLetter.Parse(message), reader.Headers));
        return letters;
    }
}
