using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace MfqWorker;

/// <summary>
/// Logs a queue that is not healthy; it is asked every 30 seconds. A container's probe asks from outside:
/// <c>mfq check data/orders</c>.
/// </summary>
public sealed class HealthLog(ILogger<HealthLog> log) : IHealthCheckPublisher
{
    public Task PublishAsync(HealthReport report, CancellationToken cancellationToken)
    {
        foreach ((string name, HealthReportEntry entry) in report.Entries)
        {
            if (entry.Status != HealthStatus.Healthy)
                log.LogWarning("{Name} is {Status}: {Description}", name, entry.Status, entry.Description);
        }

        return Task.CompletedTask;
    }
}
