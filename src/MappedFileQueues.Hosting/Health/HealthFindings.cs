using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace MappedFileQueues.Hosting.Health;

/// <summary>Gathers the sentences of one health check. The worst of them decides.</summary>
/// <param name="failureStatus">What the application calls unhealthy.</param>
internal sealed class HealthFindings(HealthStatus failureStatus)
{
    private readonly List<string> _sentences = [];
    private HealthStatus _status = HealthStatus.Healthy;

    public Dictionary<string, object> Data { get; } = [];

    public void Unhealthy(string sentence) => Add(failureStatus, sentence);

    /// <summary>No worse than what the application calls unhealthy.</summary>
    public void Degraded(string sentence) =>
        Add(failureStatus < HealthStatus.Degraded ? HealthStatus.Degraded : failureStatus, sentence);

    public HealthCheckResult ToResult(string well, Exception? error = null) => new(
        _status, _sentences.Count == 0 ? well : string.Join(' ', _sentences), error, Data);

    private void Add(HealthStatus status, string sentence)
    {
        _status = status < _status ? status : _status;
        _sentences.Add(sentence);
    }
}
