using MappedFileQueues.Hosting;
using Microsoft.Extensions.DependencyInjection;

namespace Microsoft.Extensions.Logging;

/// <summary>Adds the log provider of MappedFileQueues to an application.</summary>
public static class MappedFileLoggingExtensions
{
    /// <summary>Writes the log to this file as lines of text.</summary>
    /// <param name="builder">The application's logging.</param>
    /// <param name="path">The file.</param>
    public static ILoggingBuilder AddMappedFile(this ILoggingBuilder builder, string path) =>
        builder.AddMappedFile(options => options.Path = path);

    /// <summary>
    /// Writes the log to a file. The file is opened when the application's loggers are made, and an error of it is thrown there.
    /// The provider's alias in configuration, for filters, is `MappedFile`.
    /// </summary>
    /// <param name="builder">The application's logging.</param>
    /// <param name="configure">Sets the options; at least <see cref="MappedFileLoggerOptions.Path"/>.</param>
    public static ILoggingBuilder AddMappedFile(this ILoggingBuilder builder, Action<MappedFileLoggerOptions> configure)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(configure);
        builder.Services.AddSingleton<ILoggerProvider>(_ =>
        {
            MappedFileLoggerOptions options = new();
            configure(options);
            return new MappedFileLoggerProvider(options);
        });
        return builder;
    }
}
