using MappedFileQueues.Hosting;
using MappedFileQueues.Tests.Tool;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace MappedFileQueues.Tests.Hosting.Consumers;

/// <summary>Health said that a queue is well while its messages went to the dead letters and nobody knew of them.</summary>
public sealed class LetterHealthTests
{
    private readonly Script _script = new();

    [Fact]
    [Trait("Category", "Slow")]
    public async Task Check_LettersWait_IsDegradedUntilSomebodySettlesThem()
    {
        _script.OnMessage = (_, _, _) => throw new InvalidOperationException("Never.");
        await using TestHost host = new();
        host.Services.AddSingleton(_script);
        host.Services.AddMappedFileQueue<long>("orders", options => options.StorePath = host.StorePath);
        host.Services.AddMappedFileConsumer<long, LongHandler>("orders", options =>
        {
            options.AttemptsMax = 1;
            options.OnFailure = HandlerFailureAction.DeadLetter;
        });
        host.Services.AddHealthChecks().AddMappedFileQueue("orders");
        await host.StartAsync();
        host.Get<MappedFileQueue<long>>("orders").Producer.Produce(1);
        host.Log.WaitFor(205);

        HealthReportEntry entry = (await host.CheckHealthAsync()).Entries.Single().Value;
        Assert.Equal(HealthStatus.Degraded, entry.Status);
        Assert.Contains("Dead letters wait for somebody", entry.Description, StringComparison.Ordinal);

        ToolRun.Of("deadletters", "delete", $"{host.StorePath}-dead-letters", "--all").Expect(0);
        Assert.Equal(HealthStatus.Healthy, (await host.CheckHealthAsync()).Status);
    }
}
