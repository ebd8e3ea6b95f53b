using Microsoft.Extensions.Hosting;

namespace MappedFileQueues.RabbitMQ.Hosting;

/// <summary>
/// A bridge as long as its application runs. One that stops because a person has to decide does not take the application with it:
/// it has logged why, and the health check says so.
/// </summary>
internal sealed class BridgeService(string name, Func<CancellationToken, Task> run, Func<BridgeStatus> getStatus)
    : BackgroundService
{
    /// <summary>The name that the application gave it.</summary>
    public string Name => name;

    public BridgeStatus GetStatus() => getStatus();

    protected override async Task ExecuteAsync(CancellationToken stoppingToken)
    {
        try
        {
            await run(stoppingToken).ConfigureAwait(false);
        }
        catch (Exception)
        {
            // The application ends, or the bridge has stopped: also for what no queue throws, such as a file that may not be
            // written.
        }
    }
}
