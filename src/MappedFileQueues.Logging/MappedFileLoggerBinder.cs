using MappedFileQueues.Hosting.Settings;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Logging.Configuration;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.Hosting;

/// <summary>Reads the options from the section `Logging:MappedFile`, whatever their name.</summary>
internal sealed class MappedFileLoggerBinder(ILoggerProviderConfiguration<MappedFileLoggerProvider> configuration)
    : IConfigureNamedOptions<MappedFileLoggerOptions>
{
    private const string Path = "Logging:MappedFile";

    /// <summary>The framework's own.</summary>
    private const string LevelKey = "LogLevel";

    public void Configure(MappedFileLoggerOptions options) => Configure(Options.DefaultName, options);

    public void Configure(string? name, MappedFileLoggerOptions options)
    {
        IConfiguration section = configuration.Configuration;
        // A copy, because the options hold one that is shared.
        options.File = options.File with { };
        string[] failures =
        [
            .. SectionReader.Read(section, Path, options, nameof(options.File), LevelKey),
            .. SectionReader.Read(
                section.GetSection(nameof(options.File)), $"{Path}:{nameof(options.File)}", options.File),
        ];
        // An exception thrown here would surface on whatever thread noticed the change of configuration.
        if (failures.Length > 0)
        {
            options.ConfigurationError = new InvalidOperationException(
                $"The log's configuration cannot be used: {string.Join(" ", failures)}");
        }
    }
}
