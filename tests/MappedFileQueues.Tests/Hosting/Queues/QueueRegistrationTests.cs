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
            ("MappedFileQueues:orders:SegmentSize", "1048576"),
            ("MappedFileQueues:orders:Durability", "Group"),
            ("MappedFileQueues:orders:FlushInterval", "00:00:00.250"),
            ("MappedFileQueues:orders:CreateIfMissing", "true"),
            ("MappedFileQueues:orders:UnixCreateMode", "UserRead, UserWrite"),
            ("MappedFileQueues:orders:Checksum", "WriteOnly"),
            ("MappedFileQueues:orders:WatchInterval", "00:00:01"));
        host.Services.AddMappedFileQueue<long>("orders", options => options.Checksum = ChecksumMode.None);
        await host.StartAsync();

        HostedQueueOptions options = host.Provider.GetRequiredService<IOptionsMonitor<HostedQueueOptions>>().Get("orders");
        Assert.Equal(DurabilityLevel.Group, options.Durability);
        Assert.Equal(TimeSpan.FromMilliseconds(250), options.FlushInterval);
        Assert.Equal(UnixFileMode.UserRead | UnixFileMode.UserWrite, options.UnixCreateMode);
        Assert.Equal(ChecksumMode.None, options.Checksum);
        Assert.Equal(TimeSpan.FromSeconds(1), options.WatchInterval);
        Assert.Equal(1048576, host.Get<MappedFileQueue<long>>("orders").GetInfo().SegmentSize);
    }

    /// <summary>The generated binder leaves these properties out; a policy of the configuration had no limits then.</summary>
    [Fact]
    public async Task Configuration_Retention_BecomesThePolicyOfTheStore()
    {
        await using TestHost host = new();
        host.Configure(
            ("MappedFileQueues:orders:StorePath", host.StorePath),
            ("MappedFileQueues:orders:Retention:MaxBytes", "1048576"),
            ("MappedFileQueues:orders:Retention:MaxAge", "7.00:00:00"),
            ("MappedFileQueues:orders:Retention:Recycle", "false"));
        host.Services.AddMappedFileQueue<long>("orders");
        await host.StartAsync();

        var expected = new RetentionOptions { MaxBytes = 1048576, MaxAge = TimeSpan.FromDays(7), Recycle = false };
        Assert.Equal(expected, host.Get<MappedFileQueue<long>>("orders").GetInfo().Retention);
    }

    [Theory]
    [InlineData("orders:Retention:MaxByte", "1", "MappedFileQueues:orders:Retention:MaxByte is no option.")]
    [InlineData("orders:Retention:MaxBytes", "-5", "MappedFileQueues:orders:Retention:MaxBytes ('-5') must be a non-negative")]
    [InlineData("orders:SegmentSize", "0", "MappedFileQueues:orders:SegmentSize must be from 1 to")]
    [InlineData("orders:SegmentSize", "many", "MappedFileQueues:orders:SegmentSize")]
    [InlineData("orders:SegmentSise", "4096", "MappedFileQueues:orders:SegmentSise is no option. The options are ")]
    [InlineData("orders:StorePath", "", "MappedFileQueues:orders:StorePath is missing")]
    [InlineData("orders:WatchInterval", "00:00:00", "MappedFileQueues:orders:WatchInterval must be from")]
    [InlineData("orders:Consumer:AttemptsMax", "0", "MappedFileQueues:orders:Consumer:AttemptsMax must be between 1 and")]
    [InlineData("orders:Consumer:Retries", "3", "MappedFileQueues:orders:Consumer:Retries is no option.")]
    [InlineData("orders:Consumers:audit:RetryDelay", "-1", "MappedFileQueues:orders:Consumers:audit:RetryDelay must be from")]
    [InlineData("orders:Health:FreeBytesMin", "-1", "MappedFileQueues:orders:Health:FreeBytesMin must be zero or more: -1.")]
    [InlineData("orders:Health:Free", "1", "MappedFileQueues:orders:Health:Free is no option.")]
    public async Task Start_WrongOption_FailsWithASentenceThatNamesTheKey(string key, string value, string sentence)
    {
        await using TestHost host = new();
        host.Configure(("MappedFileQueues:orders:StorePath", host.StorePath));
        host.Configure(($"MappedFileQueues:{key}", value));
        host.Services.AddMappedFileQueue<long>("orders")
            .AddMappedFileConsumer<long, Consumers.IgnoringHandler>("orders")
            .AddMappedFileConsumer<long, Consumers.IgnoringHandler>("orders", consumer: "audit")
            .AddHealthChecks().AddMappedFileQueue("orders");

        Exception error = await Assert.ThrowsAnyAsync<Exception>(host.StartAsync);

        Assert.Contains(sentence, error.Message, StringComparison.Ordinal);
        Assert.False(Directory.Exists(host.StorePath));
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
