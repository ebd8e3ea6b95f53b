using MappedFileQueues.Hosting.Queues;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.Hosting.Health;

/// <summary>Looks at each queue that was opened at run time. The worst of them decides.</summary>
/// <param name="factory">The queues.</param>
/// <param name="services">The application's services.</param>
/// <param name="configure">Sets thresholds, over those of a queue's section.</param>
internal sealed class FactoryHealthCheck(
    MappedFileQueueFactory factory, IServiceProvider services, Action<QueueHealthOptions>? configure) : IHealthCheck
{
    public async Task<HealthCheckResult> CheckHealthAsync(
        HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        HealthStatus status = HealthStatus.Healthy;
        List<string> texts = [];
        Dictionary<string, object> data = [];
        foreach (NamedQueue queue in factory.Queues)
        {
            HealthCheckResult result = await CheckAsync(queue, context, cancellationToken).ConfigureAwait(false);
            status = result.Status < status ? result.Status : status;
            if (result.Status != HealthStatus.Healthy)
                texts.Add($"Queue {queue.Name}: {result.Description}");
            foreach ((string key, object value) in result.Data)
                data[$"{queue.Name}:{key}"] = value;
        }

        return new HealthCheckResult(status, texts.Count == 0 ? "All queues are well." : string.Join(' ', texts), null, data);
    }

    private Task<HealthCheckResult> CheckAsync(
        NamedQueue queue, HealthCheckContext context, CancellationToken cancellationToken)
    {
        QueueHealthOptions thresholds = new();
        OptionsSection.ReadHealth(services, queue.Name, thresholds);
        configure?.Invoke(thresholds);
        ValidateOptionsResult check =
            new HealthOptionsCheck(queue.Name, services, isAtStart: false).Validate(queue.Name, thresholds);
        return check.Failed
            ? Task.FromResult(new HealthCheckResult(context.Registration.FailureStatus, check.FailureMessage))
            : new QueueHealthCheck(queue, thresholds).CheckHealthAsync(context, cancellationToken);
    }
}
