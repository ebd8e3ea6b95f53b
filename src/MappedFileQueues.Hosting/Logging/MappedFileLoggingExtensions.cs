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
    /// Writes the log to the file that configuration names: the section `Logging:MappedFile` holds the properties of
    /// <see cref="MappedFileLoggerOptions"/> but for clock and handler, those of the file under `File`, and levels under
    /// `LogLevel`. What changes there is taken over while the application runs: docs/FILES.md. Does nothing when a file has been
    /// added already, since configuration counts for each.
    /// </summary>
    /// <param name="builder">The application's logging.</param>
    public static ILoggingBuilder AddMappedFile(this ILoggingBuilder builder)
    {
        ArgumentNullException.ThrowIfNull(builder);
        if (!builder.Services.Any(service => service.ServiceType == typeof(AddedFile)))
            Add(builder, null);
        return builder;
    }

    /// <summary>Writes the log to this file as lines of text, or as configuration says.</summary>
    /// <param name="builder">The application's logging.</param>
    /// <param name="path">The file.</param>
    public static ILoggingBuilder AddMappedFile(this ILoggingBuilder builder, string path) =>
        builder.AddMappedFile(options => options.Path = path);

    /// <summary>
    /// Writes the log to a file. Each call adds a file. What is set here counts more than what
    /// <see cref="AddMappedFile(ILoggingBuilder)"/> reads from configuration. The file is opened when the application's loggers
    /// are made, and an error of it is thrown there. The provider's alias in configuration, for levels, is `MappedFile`.
    /// </summary>
    /// <param name="builder">The application's logging.</param>
    /// <param name="configure">Sets the options; called again whenever configuration has changed.</param>
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

        // The first one has the options without a name, which services.Configure sets too.
        int count = services.Count(service => service.ServiceType == typeof(AddedFile));
        string name = count == 0 ? Options.Options.DefaultName : $"{nameof(MappedFileLoggerProvider)}{count + 1}";
        services.AddSingleton(new AddedFile());
        if (configure is not null)
            services.Configure(name, configure);
        services.AddSingleton<IOptionsChangeTokenSource<MappedFileLoggerOptions>>(provider =>
            new ConfigurationChangeTokenSource<MappedFileLoggerOptions>(
                name, provider.GetRequiredService<ILoggerProviderConfiguration<MappedFileLoggerProvider>>().Configuration));
        services.AddSingleton<ILoggerProvider>(provider => new MappedFileLoggerProvider(
            provider.GetRequiredService<IOptionsMonitor<MappedFileLoggerOptions>>(), name));
    }

    /// <summary>Marks each file that was added.</summary>
    private sealed class AddedFile;
}
