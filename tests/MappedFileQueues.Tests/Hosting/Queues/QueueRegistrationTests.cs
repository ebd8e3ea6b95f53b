using MappedFileQueues.Hosting;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.Tests.Hosting.Queues;

/// <summary>Queues in an application's container: by name, from configuration, opened and closed by it.</summary>
public sealed class QueueRegistrationTests
{
    [Fact]
    public async Task AddMappedFileQueue_TwoKinds_EachNameIsOneQueueOfTheContainer()
    {
        await using TestHost host = new();
        host.Services
            .AddMappedFileQueue<long>("numbers", options => options.StorePath = host.StorePath)
            .AddMappedFileQueue("texts", options => options.StorePath = host.StorePath + "-texts");
        await host.StartAsync();

        MappedFileQueue<long> numbers = host.Get<MappedFileQueue<long>>("numbers");
        Assert.Same(numbers, host.Get<MappedFileQueue<long>>("numbers"));
        numbers.Producer.Produce(7);
        host.Get<MappedFileQueue>("texts").Producer.Produce("a"u8);
        numbers.Consumer.Consume(out long number);

        Assert.Equal(7, number);
        Assert.Equal(2, host.Log.CountOf(101));
    }

    [Fact]
    public async Task Dispose_OfTheHost_ClosesTheQueue()
    {
        MappedFileQueue<long> queue;
        await using (TestHost host = new())
        {
            host.Services.AddMappedFileQueue<long>("orders", options => options.StorePath = host.StorePath);
            await host.StartAsync();
            queue = host.Get<MappedFileQueue<long>>("orders");
        }

        Assert.Throws<ObjectDisposedException>(queue.GetInfo);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task OpenAtStart_Value_DecidesWhenTheStoreIsMade(bool atStart)
    {
        await using TestHost host = new();
        host.Services.AddMappedFileQueue<long>("orders", options =>
        {
            options.StorePath = host.StorePath;
            options.OpenAtStart = atStart;
        });
        await host.StartAsync();

        Assert.Equal(atStart, Directory.Exists(host.StorePath));
        _ = host.Get<MappedFileQueue<long>>("orders");
        Assert.True(Directory.Exists(host.StorePath));
    }

    [Fact]
    public async Task Configuration_EveryKindOfValue_IsBoundAndCodeOverridesIt()
    {
        await using TestHost host = new();
        host.Configure(
            ("MappedFileQueues:orders:StorePath", host.StorePath),
            ("MappedFileQueues:orders:SegmentSize", "1MiB"),
            ("MappedFileQueues:orders:Durability", "Group"),
            ("MappedFileQueues:orders:FlushInterval", "250ms"),
            ("MappedFileQueues:orders:CreateIfMissing", "true"),
            ("MappedFileQueues:orders:UnixCreateMode", "600"),
            ("MappedFileQueues:orders:Checksum", "WriteAndVerify"),
            ("MappedFileQueues:orders:ConsumerRetryInterval", "Infinite"),
            ("MappedFileQueues:orders:ProducerForceFlushIntervalCount", "7"),
            ("MappedFileQueues:orders:WatchInterval", "00:00:01"));
        host.Services.AddMappedFileQueue<long>("orders", options => options.Checksum = ChecksumMode.WriteOnly);
        await host.StartAsync();

        HostedQueueOptions options = host.Provider.GetRequiredService<IOptionsMonitor<HostedQueueOptions>>().Get("orders");
        Assert.Equal(DurabilityLevel.Group, options.Durability);
        Assert.Equal(TimeSpan.FromMilliseconds(250), options.FlushInterval);
        Assert.Equal(UnixFileMode.UserRead | UnixFileMode.UserWrite, options.UnixCreateMode);
        Assert.Equal(ChecksumMode.WriteOnly, options.Checksum);
        Assert.Equal(TimeSpan.FromSeconds(1), options.WatchInterval);
        Assert.Equal(Timeout.InfiniteTimeSpan, options.ConsumerRetryInterval);
        Assert.Equal(7, options.ProducerForceFlushIntervalCount);
        Assert.Equal(1048576, host.Get<MappedFileQueue<long>>("orders").GetInfo().SegmentSize);
    }

    /// <summary>The framework's binder leaves these properties out; a policy of the configuration had no limits then.</summary>
    [Fact]
    public async Task Configuration_Retention_BecomesThePolicyOfTheStore()
    {
        await using TestHost host = new();
        host.Configure(
            ("MappedFileQueues:orders:StorePath", host.StorePath),
            ("MappedFileQueues:orders:Retention:MaxBytes", "1048576"),
            ("MappedFileQueues:orders:Retention:MaxAge", "168h"),
            ("MappedFileQueues:orders:Retention:MinFreeBytes", "1GiB"),
            ("MappedFileQueues:orders:Retention:Recycle", "false"));
        host.Services.AddMappedFileQueue<long>("orders");
        await host.StartAsync();

        var expected = new RetentionOptions
        {
            MaxBytes = 1048576,
            MaxAge = TimeSpan.FromDays(7),
            MinFreeBytes = 1L << 30,
            Recycle = false,
        };
        Assert.Equal(expected, host.Get<MappedFileQueue<long>>("orders").GetInfo().Retention);
    }

    [Theory]
    [InlineData("Retention:MaxByte", "1", "Retention:MaxByte is no option. Did you mean MaxBytes? The options are ")]
    [InlineData("Retention:MaxBytes", "-5", "Retention:MaxBytes is a length such as 4096, 64MiB or 10GiB, not '-5'.")]
    [InlineData("Retention:MaxBytes", "0", "Retention:MaxBytes must be more than 0. Leave it out for no limit.")]
    [InlineData("Retention:MaxAge", "0", "Retention:MaxAge must be more than 0. Leave it out for no limit.")]
    [InlineData("Retention:UnconsumedBytesMax", "0", "Retention:UnconsumedBytesMax must be more than 0.")]
    [InlineData("Retention", "10GiB", "Retention is a section with keys of its own, not '10GiB'.")]
    [InlineData("SegmentSize", "0", "SegmentSize must be from 1 to")]
    [InlineData("SegmentSize", "many", "SegmentSize is a length such as 4096, 64MiB or 10GiB, not 'many'.")]
    [InlineData("SegmentSise", "4096", "SegmentSise is no option. Did you mean SegmentSize? The options are Checksum, ")]
    [InlineData("SegmentSize:Bytes", "4096", "SegmentSize:Bytes is no option: MappedFileQueues:orders:SegmentSize is a value.")]
    [InlineData("TimeProvider", "System", "TimeProvider is no option.")]
    [InlineData("ProducerForceFlushIntervalCount", "1KiB", "ProducerForceFlushIntervalCount is a whole number, not '1KiB'.")]
    [InlineData("Durability", "2", "Durability is one of PageCache, Interval, Group, not '2'.")]
    [InlineData("FlushInterval", "72", "FlushInterval is a time such as 500ms, 10s, 5m, 72h or 00:00:05, or infinite,")]
    [InlineData("UnixCreateMode", "rw-r--r--", "UnixCreateMode is permissions in octal such as 600 or 0640, up to 0777,")]
    [InlineData("UnixCreateMode", "UserRead, UserWrite", "UnixCreateMode is permissions in octal")]
    [InlineData("UnixCreateMode", "384", "UnixCreateMode is permissions in octal")]
    [InlineData("UnixCreateMode", "416", "UnixCreateMode is permissions in octal")]
    [InlineData("UnixCreateMode", "900", "UnixCreateMode is permissions in octal")]
    [InlineData("UnixCreateMode", "4600", "UnixCreateMode is permissions in octal")]
    [InlineData("UnixCreateMode", "0", "UnixCreateMode is permissions in octal")]
    [InlineData("StorePath", "", "StorePath is missing")]
    [InlineData("WatchInterval", "00:00:00", "WatchInterval must be from")]
    [InlineData("Consumer:AttemptsMax", "0", "Consumer:AttemptsMax must be between 1 and")]
    [InlineData("Consumer:BatchLengthMax", "4K", "Consumer:BatchLengthMax is a whole number, not '4K'.")]
    [InlineData("Consumer:Retries", "3", "Consumer:Retries is no option.")]
    [InlineData("Consumers:audit:RetryDelay", "2.00:00:00", "Consumers:audit:RetryDelay must be from")]
    [InlineData("Consumers:audit:RetryDelay", "-1", "Consumers:audit:RetryDelay is a time such as")]
    [InlineData("Consumers:audti:RetryDelay", "1s", "Consumers:audti is no consumer of this application. Did you mean audit? ")]
    [InlineData("Health:FreeBytesMin", "-1", "Health:FreeBytesMin is a length such as")]
    [InlineData("Health:Free", "1", "Health:Free is no option. Did you mean FreeBytesMin?")]
    public async Task Start_WrongOption_FailsWithASentenceThatNamesTheKey(string key, string value, string sentence)
    {
        await using TestHost host = new();
        host.Configure(("MappedFileQueues:orders:StorePath", host.StorePath));
        host.Configure(($"MappedFileQueues:orders:{key}", value));
        host.Services.AddMappedFileQueue<long>("orders")
            .AddMappedFileConsumer<long, Consumers.IgnoringHandler>("orders")
            .AddMappedFileConsumer<long, Consumers.IgnoringHandler>("orders", consumer: "audit")
            .AddHealthChecks().AddMappedFileQueue("orders");

        Exception error = await Assert.ThrowsAnyAsync<Exception>(host.StartAsync);

        Assert.Contains($"MappedFileQueues:orders:{sentence}", error.Message, StringComparison.Ordinal);
        Assert.False(Directory.Exists(host.StorePath));
    }

    /// <summary>
    /// What only code can set wrong. Without a predicate the first handler that failed ended its consumer with a
    /// NullReferenceException; a policy that is none skipped damage.
    /// </summary>
    [Fact]
    public async Task Start_WrongOptionOfCode_FailsWithASentenceThatNamesTheKey()
    {
        await using TestHost host = new();
        host.Configure(
            ("MappedFileQueues:orders:StorePath", host.StorePath), ("MappedFileQueues:orders:Consumer:DeadLetterPath", ""));
        host.Services.AddMappedFileQueue<long>("orders")
            .AddMappedFileConsumer<long, Consumers.IgnoringHandler>(
                "orders", o => (o.IsTransient, o.Corruption) = (null!, (CorruptionPolicy)9));

        Exception error = await Assert.ThrowsAnyAsync<Exception>(host.StartAsync);

        const string section = "MappedFileQueues:orders:Consumer";
        Assert.Contains($"{section}:IsTransient is null.", error.Message, StringComparison.Ordinal);
        Assert.Contains($"{section}:Corruption is not defined: 9.", error.Message, StringComparison.Ordinal);
        Assert.Contains($"{section}:DeadLetterPath is empty.", error.Message, StringComparison.Ordinal);
        Assert.False(Directory.Exists(host.StorePath));
    }

    /// <summary>The options of a consumer that nobody adds were ignored, and so was a whole section of a queue.</summary>
    [Fact]
    public async Task Start_SectionOfNobody_IsNamed()
    {
        await using TestHost host = new();
        host.Configure(
            ("MappedFileQueues:orders:Consumer:AttemptsMax", "1"),
            ("MappedFileQueues:ordres:StorePath", host.StorePath));
        host.Services.AddMappedFileQueue<long>("orders")
            .AddMappedFileConsumer<long, Consumers.IgnoringHandler>("orders", consumer: "audit");

        Exception error = await Assert.ThrowsAnyAsync<Exception>(host.StartAsync);

        Assert.Contains("There is a section MappedFileQueues:ordres.", error.Message, StringComparison.Ordinal);
        Assert.Contains(
            "MappedFileQueues:orders:Consumer is the default consumer, which this application does not add. Those with a name, "
            + "audit, have their options below MappedFileQueues:orders:Consumers.",
            error.Message,
            StringComparison.Ordinal);
    }

    /// <summary>A program that only produces may have the settings of those that consume.</summary>
    [Fact]
    public async Task Start_NoConsumerIsAdded_SectionsOfConsumersAreOthers()
    {
        await using TestHost host = new();
        host.Configure(
            ("MappedFileQueues:orders:StorePath", host.StorePath),
            ("MappedFileQueues:orders:Consumer:AttemptsMax", "1"),
            ("MappedFileQueues:orders:Consumers:audit:AttemptsMax", "1"));
        host.Services.AddMappedFileQueue<long>("orders");

        await host.StartAsync();

        Assert.True(Directory.Exists(host.StorePath));
    }

    /// <summary>Two programs that consume from one store could not share their settings.</summary>
    [Fact]
    public async Task Start_SectionsOfAnotherProgramsConsumers_AreNotRefused()
    {
        await using TestHost host = new();
        host.Configure(
            ("MappedFileQueues:orders:StorePath", host.StorePath),
            ("MappedFileQueues:orders:Consumer:AttemptsMax", "1"),
            ("MappedFileQueues:orders:Consumers:worker1:AttemptsMax", "2"),
            ("MappedFileQueues:orders:Consumers:worker2:AttemptsMax", "3"),
            ("MappedFileQueues:orders:Consumers:billing:AttemptsMax", "4"));
        host.Services.AddMappedFileQueue<long>("orders")
            .AddMappedFileConsumer<long, Consumers.IgnoringHandler>("orders", consumer: "worker1");

        await host.StartAsync();

        Assert.True(Directory.Exists(host.StorePath));
    }

    [Fact]
    public async Task Start_StoreOfAnotherStruct_Fails()
    {
        await using TestHost host = new();
        new MappedFileQueue(new MappedFileQueueOptions { StorePath = host.StorePath }).Dispose();
        host.Services.AddMappedFileQueue<long>("orders", options => options.StorePath = host.StorePath);

        await Assert.ThrowsAsync<QueueFormatException>(host.StartAsync);
    }

    [Fact]
    public void AddMappedFileQueue_SameNameTwice_IsRefused()
    {
        ServiceCollection services = new();
        services.AddMappedFileQueue<long>("orders");

        Assert.Throws<InvalidOperationException>(() => services.AddMappedFileQueue("orders"));
        Assert.Throws<ArgumentException>(() => services.AddMappedFileQueue("or:ders"));
        Assert.Contains("name=\"con.log\"",
            Assert.Throws<ArgumentException>(() => services.AddMappedFileQueue("con.log")).Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Container_WithoutHost_OpensOnFirstUse()
    {
        using TempStore folder = new();
        ServiceCollection services = new();
        services.AddMappedFileQueue("orders", options => options.StorePath = folder.StorePath);
        await using ServiceProvider provider = services.BuildServiceProvider();

        provider.GetRequiredKeyedService<MappedFileQueue>("orders").Producer.Produce("a"u8);

        Assert.True(Directory.Exists(folder.StorePath));
    }
}
