using MappedFileQueues.Hosting.Queues;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace MappedFileQueues.Hosting.Health;

/// <summary>Looks at each queue that was opened at run time. The worst of them decides.</summary>
internal sealed class FactoryHealthCheck(MappedFileQueueFactory factory, QueueHealthOptions options) : IHealthCheck
{
    public async Task<HealthCheckResult> CheckHealthAsync(
        HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        HealthStatus status = HealthStatus.Healthy;
        List<string> texts = [];
        Dictionary<string, object> data = [];
        foreach (NamedQueue queue in factory.Queues)
        {
            HealthCheckResult result = await new QueueHealthCheck(queue, options)
                .CheckHealthAsync(context, cancellationToken).ConfigureAwait(false);
            status = result.Status < status ? result.Status : status;
            if (result.Status != HealthStatus.Healthy)
                texts.Add($"Queue {queue.Name}: {result.Description}");
            foreach ((string key, object value) in result.Data)
                data[$"{queue.Name}:{key}"] = value;
        }

        return new HealthCheckResult(status, texts.Count == 0 ? "All queues are well." : string.Join(' ', texts), null, data);
    }
}
