using MappedFileQueues.Hosting.Telemetry;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace MappedFileQueues.Hosting.Queues;

/// <summary>
/// Opens the queues that are to be opened at the start, in the order in which they were added, and looks at each of them from
/// then on.
/// </summary>
internal sealed class QueueWatchService(
    IServiceProvider services, IEnumerable<AddedQueue> queues, MappedFileQueueFactory factory) : BackgroundService
{
    public override Task StartAsync(CancellationToken cancellationToken)
    {
        // Nobody else asks for it in an application that consumes nothing.
        _ = services.GetRequiredService<QueueMeter>();
        foreach (AddedQueue queue in queues)
        {
            if (services.GetRequiredKeyedService<NamedQueue>(queue.Name).Options.OpenAtStart)
                queue.Open(services);
        }

        return base.StartAsync(cancellationToken);
    }

    /// <summary>Consumers that were started at run time are no services of the host, and end here.</summary>
    public override Task StopAsync(CancellationToken cancellationToken) =>
        Task.WhenAll(base.StopAsync(cancellationToken), factory.StopConsumersAsync(cancellationToken));

    protected override Task ExecuteAsync(CancellationToken stoppingToken) => Task.WhenAll(
        queues.Select(queue => WatchAsync(services.GetRequiredKeyedService<NamedQueue>(queue.Name), stoppingToken)));

    /// <summary>Looks at a queue until the token ends it.</summary>
    public static async Task WatchAsync(NamedQueue queue, CancellationToken stoppingToken)
    {
        using var timer = new PeriodicTimer(queue.Options.WatchInterval, queue.Clock);
        try
        {
            do
                queue.Watch.Look(TimeSpan.Zero);
            while (await timer.WaitForNextTickAsync(stoppingToken).ConfigureAwait(false));
        }
        catch (OperationCanceledException)
        {
            // The application ends.
        }
    }
}

/// <summary>A queue that was added to the application.</summary>
/// <param name="Name">Its name.</param>
/// <param name="Kind">The class that it is opened as.</param>
/// <param name="Open">Has the container open it.</param>
internal sealed record AddedQueue(string Name, Type Kind, Action<IServiceProvider> Open);
