using System.Diagnostics.Metrics;
using MappedFileQueues;
using MappedFileQueues.Hosting;
using MappedFileQueues.Hosting.Queues;
using MappedFileQueues.Hosting.Telemetry;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Adds queues to an application.</summary>
public static class MappedFileQueueServiceCollectionExtensions
{
    /// <summary>
    /// Adds a queue of structs under a name. It is a keyed singleton that the container opens and disposes; a class asks for
    /// it by `[FromKeyedServices("orders")] MappedFileQueue&lt;Order&gt;`. Its options come from the section
    /// `MappedFileQueues:NAME` of the configuration, and then from <paramref name="configure"/>.
    /// </summary>
    /// <typeparam name="T">The message: a struct without references.</typeparam>
    /// <param name="services">The application's services.</param>
    /// <param name="name">The queue's name in the application: 1 to 100 characters of A-Z a-z 0-9 . _ -.</param>
    /// <param name="configure">Sets options, over those of the configuration.</param>
    /// <returns>The services.</returns>
    /// <exception cref="ArgumentException">No queue can have this name.</exception>
    /// <exception cref="InvalidOperationException">A queue of this name was added already.</exception>
    public static IServiceCollection AddMappedFileQueue<T>(
        this IServiceCollection services, string name, Action<HostedQueueOptions>? configure = null)
        where T : unmanaged
    {
        Add(services, name, typeof(MappedFileQueue<T>), configure,
            provider => provider.GetRequiredKeyedService<MappedFileQueue<T>>(name));
        return services.AddKeyedSingleton(
            name, static (provider, key) => provider.GetRequiredKeyedService<NamedQueue>(key).Open<T>());
    }

    /// <summary>
    /// Adds a queue of messages of any length, as <see cref="AddMappedFileQueue{T}"/> does:
    /// `[FromKeyedServices("orders")] MappedFileQueue`.
    /// </summary>
    /// <param name="services">The application's services.</param>
    /// <param name="name">The queue's name in the application: 1 to 100 characters of A-Z a-z 0-9 . _ -.</param>
    /// <param name="configure">Sets options, over those of the configuration.</param>
    /// <returns>The services.</returns>
    /// <exception cref="ArgumentException">No queue can have this name.</exception>
    /// <exception cref="InvalidOperationException">A queue of this name was added already.</exception>
    public static IServiceCollection AddMappedFileQueue(
        this IServiceCollection services, string name, Action<HostedQueueOptions>? configure = null)
    {
        Add(services, name, typeof(MappedFileQueue), configure,
            provider => provider.GetRequiredKeyedService<MappedFileQueue>(name));
        return services.AddKeyedSingleton(
            name, static (provider, key) => provider.GetRequiredKeyedService<NamedQueue>(key).Open());
    }

    /// <summary>
    /// Adds <see cref="MappedFileQueueFactory"/>, which opens queues whose names are known at run time only. Handlers of their
    /// consumers are added as scoped services.
    /// </summary>
    /// <param name="services">The application's services.</param>
    /// <returns>The services.</returns>
    public static IServiceCollection AddMappedFileQueueFactory(this IServiceCollection services)
    {
        ArgumentNullException.ThrowIfNull(services);
        services.AddLogging();
        services.TryAddSingleton(static provider => new MappedFileQueueFactory(provider));
        services.TryAddSingleton(static provider => new QueueMeter(
            provider, provider.GetServices<AddedQueue>(), provider.GetService<IMeterFactory>()));
        services.TryAddEnumerable(ServiceDescriptor.Singleton<IHostedService, QueueWatchService>());
        return services;
    }

    private static void Add(
        IServiceCollection services, string name, Type kind, Action<HostedQueueOptions>? configure, Action<IServiceProvider> open)
    {
        ArgumentNullException.ThrowIfNull(services);
        QueueNames.ThrowIfInvalid(name);
        if (services.Any(service => service.ServiceType == typeof(NamedQueue) && name.Equals(service.ServiceKey)))
            throw new InvalidOperationException($"A queue of this name was added already: name=\"{name}\".");
        OptionsBuilder<HostedQueueOptions> options = services.AddOptions<HostedQueueOptions>(name)
            .Configure<IServiceProvider>((queue, provider) => OptionsSection.ReadQueue(provider, name, queue));
        if (configure is not null)
            options.Configure(configure);
        options.ValidateOnStart();
        services.AddSingleton<IValidateOptions<HostedQueueOptions>>(provider => new QueueOptionsCheck(name, provider));
        services.AddSingleton(new AddedQueue(name, kind, open));
        services.AddKeyedSingleton(name, (provider, _) => new NamedQueue(
            name,
            provider.GetRequiredService<IOptionsMonitor<HostedQueueOptions>>().Get(name),
            provider.GetRequiredService<ILoggerFactory>().CreateLogger(QueueLog.Category)));
        services.AddMappedFileQueueFactory();
    }
}
