using System.Collections.Concurrent;
using System.Diagnostics;
using MappedFileQueues.Tests.Hosting.Consumers;
using Microsoft.Extensions.DependencyInjection;

namespace MappedFileQueues.Tests.Hosting.Telemetry;

/// <summary>How the calls of a handler hang together as activities.</summary>
public sealed class AttemptTraceTests
{
    /// <summary>
    /// Each attempt was a child of the one before it, which had ended long ago, and all messages were part of the trace in which
    /// the application had started.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Attempts_OfOneMessage_AreSiblingsInATraceOfItsOwn(bool isAsync)
    {
        string queue = $"orders-{Guid.NewGuid():N}";
        ConcurrentQueue<Activity> ended = [];
        using ActivityListener listener = new()
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
        Script script = new()
        {
            OnMessage = async (_, context, _) =>
            {
                if (isAsync)
                    await Task.Yield();
                if (context.Attempt < 3)
                    throw new InvalidOperationException("Not yet.");
            },
        };
        await using TestHost host = new();
        host.Services.AddSingleton(script)
            .AddMappedFileQueue<long>(queue, o => o.StorePath = host.StorePath)
            .AddMappedFileConsumer<long, LongHandler>(queue, o => o.RetryDelay = TimeSpan.FromMilliseconds(1));
        using (Activity ambient = new Activity("start").Start())
            await host.StartAsync();
        for (int i = 0; i < 2; i++)
            host.Get<MappedFileQueue<long>>(queue).Producer.Produce(i);

        Eventually.Equal(6, () => ended.Count);

        Activity[] calls = [.. ended];
        Assert.All(calls, call => Assert.Equal(default, call.ParentSpanId));
        Assert.All(calls, call => Assert.True(call.Recorded));
        Assert.Equal([1, 2, 3, 1, 2, 3], calls.Select(call => call.GetTagItem("mappedfilequeues.attempt")).Cast<int>());
        Assert.Single(calls[..3].Select(call => call.TraceId).Distinct());
        Assert.Single(calls[3..].Select(call => call.TraceId).Distinct());
        Assert.NotEqual(calls[0].TraceId, calls[3].TraceId);
    }
}
