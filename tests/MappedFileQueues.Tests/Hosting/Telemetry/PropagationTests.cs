using System.Collections.Concurrent;
using System.Diagnostics;
using MappedFileQueues.Hosting;
using MappedFileQueues.Tests.Hosting.Consumers;
using Microsoft.Extensions.DependencyInjection;

namespace MappedFileQueues.Tests.Hosting.Telemetry;

/// <summary>The producer's trace continues where its message is handled.</summary>
[Collection(AloneCollection.Name)]
[Trait("Category", "Slow")]
public sealed class PropagationTests
{
    private static readonly Comparer<(ActivityTraceId, int)> s_byText =
        Comparer<(ActivityTraceId, int)>.Create((one, other) => string.CompareOrdinal($"{one}", $"{other}"));

    /// <summary>This process produces, another one handles; a collector gets the span of the second in the trace of the first.
    /// </summary>
    [Fact]
    public async Task Handle_MessageOfAnotherProcess_ContinuesItsTrace()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The child is interrupted by a signal.");
        using OtlpReceiver receiver = new();
        await using TestHost host = new();
        host.Services.AddMappedFileQueue<long>("orders", o => o.StorePath = host.StorePath);
        await host.StartAsync();
        MappedFileProducer<long> producer = host.Get<MappedFileQueue<long>>("orders").Producer;
        List<Activity> sent = [];
        for (int i = 0; i < 3; i++)
        {
            using Activity activity = new Activity("send").SetIdFormat(ActivityIdFormat.W3C);
            activity.ActivityTraceFlags = ActivityTraceFlags.Recorded;
            activity.Start();
            producer.Produce(i);
            sent.Add(activity);
        }

        producer.Produce(3);
        using (ChildProcess peer = ChildProcess.Start(
            Repository.HostPeerPath, [host.StorePath, "run", $"{receiver.Address}v1/traces"]))
        {
            peer.WaitForLine("end 3");
            peer.Signal(2);
            peer.ExpectExit();
        }

        OtlpReceiver.Span[] handled = [.. receiver.Spans];
        Assert.Equal(4, handled.Length);
        Assert.Equal(sent.Select(activity => $"{activity.TraceId} {activity.SpanId}"),
            handled[..3].Select(span => $"{span.TraceId} {span.ParentId}"));
        Assert.Equal("", handled[3].ParentId);
    }

    /// <summary>
    /// A message that came back has been handled in its trace before, and is so again; in a batch it is alone, with its link.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Group_MessageComesAgain_EachDeliveryIsInItsTrace(bool inBatches)
    {
        string queue = $"orders-{Guid.NewGuid():N}";
        ConcurrentQueue<Activity> ended = [];
        using ActivityListener listener = Listen(queue, ended);
        Script script = new()
        {
            OnMessage = (message, context, _) => message == "1" && context.DeliveryCount == 1
                ? throw new InvalidOperationException("Not yet.")
                : default,
        };
        await using TestHost host = new();
        host.Services.AddSingleton(script).AddMappedFileQueue<long>(queue, o => o.StorePath = host.StorePath);
        Action<HostedConsumerOptions> join = o => (o.Group, o.RetryDelay) = ("workers", TimeSpan.Zero);
        _ = inBatches
            ? host.Services.AddMappedFileBatchConsumer<long, LongBatchHandler>(queue, join)
            : host.Services.AddMappedFileConsumer<long, LongHandler>(queue, join);
        List<ActivityTraceId> sent = [];
        for (int i = 0; i < 3; i++)
        {
            using Activity activity = new Activity("send").SetIdFormat(ActivityIdFormat.W3C).Start();
            host.Get<MappedFileQueue<long>>(queue).Producer.Produce(i);
            sent.Add(activity.TraceId);
        }

        await host.StartAsync();
        Eventually.True(() => host.Get<MappedFileQueue<long>>(queue).GetInfo().Groups is [{ Lag: 0 }], "all are handled");
        await host.StopAsync();

        (ActivityTraceId, int)[] again = [(sent[0], 2), (sent[1], 2), (sent[2], 2)];
        (ActivityTraceId, int)[] expected = inBatches
            ? [.. sent.Select(trace => (trace, 1)), .. again]
            : [(sent[0], 1), (sent[1], 1), (sent[1], 2), (sent[2], 1)];
        Assert.Equal(expected.Order(s_byText), ended.SelectMany(activity => inBatches
            ? activity.Links.Select(link => (link.Context.TraceId, DeliveryOf(activity)))
            : [(activity.TraceId, DeliveryOf(activity))]).Order(s_byText));
    }

    private static int DeliveryOf(Activity activity) => (int)activity.GetTagItem("mappedfilequeues.delivery_count")!;

    [Fact]
    public async Task Batch_MessagesOfSeveralTraces_HasALinkToEach()
    {
        string queue = $"orders-{Guid.NewGuid():N}";
        ConcurrentQueue<Activity> ended = [];
        using ActivityListener listener = Listen(queue, ended);
        await using TestHost host = new();
        host.Services.AddSingleton(new Script())
            .AddMappedFileQueue<long>(queue, o => o.StorePath = host.StorePath);
        List<ActivityTraceId> sent = [];
        using (MappedFileQueue<long> before = new(
            new MappedFileQueueOptions { StorePath = host.StorePath, StampTraceContext = true }))
        {
            before.Producer.Produce(-1);
            for (int i = 0; i < 200; i++)
            {
                using Activity activity = new Activity("send").SetIdFormat(ActivityIdFormat.W3C).Start();
                before.Producer.Produce(i);
                sent.Add(activity.TraceId);
            }
        }

        host.Services.AddMappedFileBatchConsumer<long, LongBatchHandler>(queue);
        await host.StartAsync();
        Eventually.True(() => host.Get<MappedFileQueue<long>>(queue).GetInfo().Consumers is [{ Lag: 0 }], "all are handled");

        Activity batch = Assert.Single(ended);
        Assert.Equal(default, batch.ParentSpanId);
        Assert.Equal(sent[..128], batch.Links.Select(link => link.Context.TraceId));
    }

    private static ActivityListener Listen(string queue, ConcurrentQueue<Activity> ended)
    {
        ActivityListener listener = new()
        {
            ShouldListenTo = source => source.Name == "MappedFileQueues",
            Sample = (ref _) => ActivitySamplingResult.AllDataAndRecorded,
            ActivityStopped = activity =>
            {
                if (activity.DisplayName == $"process {queue}")
                    ended.Enqueue(activity);
            },
        };
        ActivitySource.AddActivityListener(listener);
        return listener;
    }
}
