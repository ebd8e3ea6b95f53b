using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;

namespace MappedFileQueues.RabbitMQ.Hosting;

/// <summary>
/// Healthy while all bridges run or stand by, degraded while one is without its broker, unhealthy when that lasts or when one has
/// stopped for good.
/// </summary>
internal sealed class BridgeHealthCheck(IEnumerable<IHostedService> services, TimeSpan patience, TimeProvider clock)
    : IHealthCheck
{
    public Task<HealthCheckResult> CheckHealthAsync(
        HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        HealthStatus worst = HealthStatus.Healthy;
        List<string> words = [];
        Dictionary<string, object> data = [];
        foreach (BridgeService service in services.OfType<BridgeService>())
        {
            BridgeStatus status = service.GetStatus();
            data[service.Name] = status;
            HealthStatus health = status.State switch
            {
                BridgeState.Running or BridgeState.Standby => HealthStatus.Healthy,
                BridgeState.Failed => HealthStatus.Unhealthy,
                _ when clock.GetUtcNow() - (status.TroubleSince ?? clock.GetUtcNow()) < patience => HealthStatus.Degraded,
                _ => HealthStatus.Unhealthy,
            };
            if (health != HealthStatus.Healthy)
                words.Add($"{service.Name}: {status.State}, {status.LastError ?? "not connected yet"}");
            worst = health < worst ? health : worst;
        }

        return Task.FromResult(new HealthCheckResult(worst, words.Count == 0 ? null : string.Join("; ", words), null, data));
    }
}
