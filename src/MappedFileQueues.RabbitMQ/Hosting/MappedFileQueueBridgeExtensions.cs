using System.Diagnostics.CodeAnalysis;
using MappedFileQueues.RabbitMQ;
using MappedFileQueues.RabbitMQ.Hosting;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Bridges to RabbitMQ streams as hosted services of an application.</summary>
public static class MappedFileQueueBridgeExtensions
{
    /// <summary>
    /// How long a bridge may be without its broker before the health check says unhealthy, by default: a minute.
    /// </summary>
    private static readonly TimeSpan s_patience = TimeSpan.FromMinutes(1);

    /// <summary>Forwards a store into a stream while the application runs. The options are named, and may be bound too.</summary>
    /// <param name="services">The services.</param>
    /// <param name="name">The name of the bridge and of its options.</param>
    /// <param name="configure">Sets the options.</param>
    /// <returns>The services.</returns>
    /// <exception cref="InvalidOperationException">A bridge of this direction and name was added already.</exception>
    public static IServiceCollection AddMappedFileQueueForwarder(
        this IServiceCollection services, string name, Action<StreamForwarderOptions> configure)
    {
        return services.AddBridge(name, configure, (options, provider) =>
        {
            options.AwaitsStore = true;
            StreamForwarder forwarder = new(options, provider.GetService<ILogger<StreamForwarder>>());
            return new BridgeService(name, forwarder.RunAsync, forwarder.GetStatus);
        });
    }

    /// <summary>Fetches a stream into a store while the application runs.</summary>
    /// <inheritdoc cref="AddMappedFileQueueForwarder"/>
    public static IServiceCollection AddMappedFileQueueFetcher(
        this IServiceCollection services, string name, Action<StreamFetcherOptions> configure)
    {
        return services.AddBridge(name, configure, (options, provider) =>
        {
            StreamFetcher fetcher = new(options, provider.GetService<ILogger<StreamFetcher>>());
            return new BridgeService(name, fetcher.RunAsync, fetcher.GetStatus);
        });
    }

    /// <summary>
    /// Checks all bridges of the application: degraded while one is without its broker, unhealthy when that lasts longer than the
    /// patience, or when one has stopped for good.
    /// </summary>
    /// <param name="builder">The health checks.</param>
    /// <param name="name">The name of the check.</param>
    /// <param name="patience">How long a bridge may be without its broker. Default: a minute.</param>
    /// <returns>The health checks.</returns>
    public static IHealthChecksBuilder AddMappedFileQueueBridges(
        this IHealthChecksBuilder builder, string name = "mappedfilequeue-bridges", TimeSpan? patience = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        return builder.Add(new HealthCheckRegistration(
            name,
            provider => new BridgeHealthCheck(
                provider.GetServices<IHostedService>(),
                patience ?? s_patience,
                provider.GetService<TimeProvider>() ?? TimeProvider.System),
            failureStatus: null,
            tags: null));
    }

    private static IServiceCollection AddBridge<
        [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicParameterlessConstructor)] TOptions>(
        this IServiceCollection services, string name, Action<TOptions> configure,
        Func<TOptions, IServiceProvider, BridgeService> create)
        where TOptions : BridgeOptions
    {
        ArgumentNullException.ThrowIfNull(services);
        ArgumentException.ThrowIfNullOrEmpty(name);
        ArgumentNullException.ThrowIfNull(configure);
        BridgeOptionsCheck<TOptions> check = new(name);
        if (services.Any(service => !service.IsKeyedService && check.Equals(service.ImplementationInstance)))
            throw new InvalidOperationException($"A bridge of this kind and name was added already: name=\"{name}\".");
        services.AddOptions<TOptions>(name).Configure(configure);
        services.AddSingleton<IValidateOptions<TOptions>>(check);
        return services.AddSingleton<IHostedService>(
            provider => create(provider.GetRequiredService<IOptionsMonitor<TOptions>>().Get(name), provider));
    }
}
