using MappedFileQueues.Hosting;
using MappedFileQueues.Hosting.Health;
using MappedFileQueues.Hosting.Queues;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Options;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Adds the health of queues to an application's health checks.</summary>
public static class MappedFileHealthChecksBuilderExtensions
{
    /// <summary>
    /// Adds a check of one queue: poison, flushes, unfinished messages, consumers that lag, that were dropped or that have
    /// stopped, handlers that do not return, free space. Its thresholds come from the section `MappedFileQueues:NAME:Health` of
    /// the configuration, and then from <paramref name="configure"/>.
    /// </summary>
    /// <param name="builder">The application's health checks.</param>
    /// <param name="queue">The queue's name in the application.</param>
    /// <param name="configure">Sets thresholds, over those of the configuration.</param>
    /// <param name="failureStatus">What unhealthy is called; default <see cref="HealthStatus.Unhealthy"/>.</param>
    /// <param name="tags">Tags for choosing among checks.</param>
    /// <returns>The health checks.</returns>
    /// <exception cref="ArgumentException">No queue can have this name.</exception>
    public static IHealthChecksBuilder AddMappedFileQueue(
        this IHealthChecksBuilder builder,
        string queue,
        Action<QueueHealthOptions>? configure = null,
        HealthStatus? failureStatus = null,
        IEnumerable<string>? tags = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        QueueNames.ThrowIfInvalid(queue);
        OptionsBuilder<QueueHealthOptions> options = builder.Services.AddOptions<QueueHealthOptions>(queue)
            .Configure<IServiceProvider>((thresholds, provider) => OptionsSection.ReadHealth(provider, queue, thresholds));
        if (configure is not null)
            options.Configure(configure);
        options.ValidateOnStart();
        builder.Services.AddSingleton<IValidateOptions<QueueHealthOptions>>(provider => new HealthOptionsCheck(queue, provider));
        return builder.Add(new HealthCheckRegistration(
            $"{QueueNames.Section}:{queue}",
            provider =>
            {
                // The options come first: their check says that the queue is missing.
                QueueHealthOptions thresholds = provider.GetRequiredService<IOptionsMonitor<QueueHealthOptions>>().Get(queue);
                return new QueueHealthCheck(provider.GetRequiredKeyedService<NamedQueue>(queue), thresholds);
            },
            failureStatus,
            tags));
    }

    /// <summary>
    /// Adds one check of all queues that <see cref="MappedFileQueueFactory"/> has open, as
    /// <see cref="AddMappedFileQueue"/> checks one, with the thresholds of its own section. Each sentence names its queue, and so
    /// does each key of the data. Thresholds that cannot be are told at each check.
    /// </summary>
    /// <param name="builder">The application's health checks.</param>
    /// <param name="configure">Sets the thresholds of each queue, over those of the configuration, at each check.</param>
    /// <param name="failureStatus">What unhealthy is called; default <see cref="HealthStatus.Unhealthy"/>.</param>
    /// <param name="tags">Tags for choosing among checks.</param>
    /// <returns>The health checks.</returns>
    public static IHealthChecksBuilder AddMappedFileQueues(
        this IHealthChecksBuilder builder,
        Action<QueueHealthOptions>? configure = null,
        HealthStatus? failureStatus = null,
        IEnumerable<string>? tags = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        builder.Services.AddMappedFileQueueFactory();
        return builder.Add(new HealthCheckRegistration(
            QueueNames.Section,
            provider => new FactoryHealthCheck(provider.GetRequiredService<MappedFileQueueFactory>(), provider, configure),
            failureStatus,
            tags));
    }
}
