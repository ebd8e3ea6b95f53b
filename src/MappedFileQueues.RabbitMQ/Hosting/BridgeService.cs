using Microsoft.Extensions.Hosting;

namespace MappedFileQueues.RabbitMQ.Hosting;

/// <summary>
/// A bridge as long as its application runs. One that stops because a person has to decide does not take the application with it:
/// it has logged why, and the health check says so.
/// </summary>
internal sealed class BridgeService(string name, TimeSpan pause, Func<CancellationToken, Task> run, Func<BridgeStatus> getStatus)
    : BackgroundService
{
    /// <summary>The name that the application gave it.</summary>
    public string Name => name;

    public BridgeStatus GetStatus() => getStatus();

    protected override async Task ExecuteAsync(CancellationToken stoppingToken)
    {
        while (true)
        {
            try
            {
                await run(stoppingToken).ConfigureAwait(false);
            }
            catch (OperationCanceledException) when (stoppingToken.IsCancellationRequested)
            {
                return;
            }
            catch (QueueNotFoundException)
            {
                // The producers of the same application may make the store later.
                await Task.Delay(pause, stoppingToken).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            }
            catch (Exception)
            {
                // Also what no queue throws, such as a file that may not be written.
                return;
            }
        }
    }
}
