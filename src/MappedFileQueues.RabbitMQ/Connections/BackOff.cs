namespace MappedFileQueues.RabbitMQ.Connections;

/// <summary>
/// Pauses between attempts: doubling, random between half and all of it, so that many clients do not come at once.
/// </summary>
internal sealed class BackOff(BridgeOptions options)
{
    private int _failures;

    /// <summary>The next pause.</summary>
    public TimeSpan Next()
    {
        double pause = Math.Min(options.BackOffMin.Ticks * Math.Pow(2, Math.Min(_failures++, 40)), options.BackOffMax.Ticks);
        return TimeSpan.FromTicks((long)(pause * (0.5 + (Random.Shared.NextDouble() / 2))));
    }

    public Task PauseAsync(TimeSpan pause, CancellationToken cancellationToken) =>
        Task.Delay(pause, options.TimeProvider, cancellationToken);

    /// <summary>An attempt has succeeded.</summary>
    public void Reset() => _failures = 0;
}
