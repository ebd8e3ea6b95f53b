using MappedFileQueues.Hosting;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Logging.Configuration;
using Microsoft.Extensions.Options;

namespace Microsoft.Extensions.Logging;

/// <summary>Adds the log provider of MappedFileQueues to an application.</summary>
public static class MappedFileLoggingExtensions
{
    /// <summary>
    /// Writes the log to the file that the configuration names. The section `Logging:MappedFile` holds the properties of
    /// <see cref="MappedFileLoggerOptions"/> except clock and handler, those of the file under `File`, and levels under
    /// `LogLevel`. Changes of the configuration apply while the application runs: docs/FILES.md. Does nothing if a file has been
    /// added already, because the configuration applies to every file.
    /// </summary>
    /// <param name="builder">The application's logging.</param>
    public static ILoggingBuilder AddMappedFile(this ILoggingBuilder builder)
    {
        ArgumentNullException.ThrowIfNull(builder);
        if (!builder.Services.Any(IsFile))
            Add(builder, null);
        return builder;
    }

    /// <summary>Writes the log to this file as lines of text, or as the configuration says.</summary>
    /// <param name="builder">The application's logging.</param>
    /// <param name="path">The path of the file.</param>
    public static ILoggingBuilder AddMappedFile(this ILoggingBuilder builder, string path) =>
        builder.AddMappedFile(options => options.Path = path);

    /// <summary>
    /// Writes the log to a file. Each call adds a file. Options set here override those that
    /// <see cref="AddMappedFile(ILoggingBuilder)"/> reads from the configuration. The file is opened when the application's
    /// loggers are created, and an error is thrown there. The provider's alias in the configuration, for levels, is `MappedFile`.
    /// </summary>
    /// <param name="builder">The application's logging.</param>
    /// <param name="configure">Sets the options; called again whenever the configuration has changed.</param>
    public static ILoggingBuilder AddMappedFile(this ILoggingBuilder builder, Action<MappedFileLoggerOptions> configure)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(configure);
        Add(builder, configure);
        return builder;
    }

    private static void Add(ILoggingBuilder builder, Action<MappedFileLoggerOptions>? configure)
    {
        IServiceCollection services = builder.Services;
        builder.AddConfiguration();
        services.TryAddEnumerable(
            ServiceDescriptor.Singleton<IConfigureOptions<MappedFileLoggerOptions>, MappedFileLoggerBinder>());

        // The first file uses the options without a name, which services.Configure sets too.
        int count = services.Count(IsFile);
        string name = count == 0 ? Options.Options.DefaultName : $"{nameof(MappedFileLoggerProvider)}{count + 1}";
        if (configure is not null)
            services.Configure(name, configure);
        services.AddSingleton<IOptionsChangeTokenSource<MappedFileLoggerOptions>>(provider =>
            new ConfigurationChangeTokenSource<MappedFileLoggerOptions>(
                name, provider.GetRequiredService<ILoggerProviderConfiguration<MappedFileLoggerProvider>>().Configuration));
        ServiceDescriptor added = ServiceDescriptor.Singleton<ILoggerProvider, MappedFileLoggerProvider>(provider => new(
            provider.GetRequiredService<IOptionsMonitor<MappedFileLoggerOptions>>(), name));

        // As a provider of any application the first one is there once, whoever else adds it. Each further one is another file.
        if (count == 0)
            services.TryAddEnumerable(added);
        else
            services.Add(added);
    }

    /// <summary>
    /// Whether a service is one of these providers. ClearProviders takes them away, and then a file may be added again.
    /// </summary>
    private static bool IsFile(ServiceDescriptor service) =>
        service is { IsKeyedService: false } && service.ServiceType == typeof(ILoggerProvider)
        && (service.ImplementationType == typeof(MappedFileLoggerProvider)
            || service.ImplementationInstance is MappedFileLoggerProvider
            || service.ImplementationFactory is Func<IServiceProvider, MappedFileLoggerProvider>);
}
