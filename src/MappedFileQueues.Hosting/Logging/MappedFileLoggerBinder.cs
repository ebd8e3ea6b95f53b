using System.Globalization;
using System.Reflection;
using MappedFileQueues.Files;
using MappedFileQueues.Hosting.Queues;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Logging.Configuration;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.Hosting;

/// <summary>
/// Reads the options from the section `Logging:MappedFile`, whatever their name. It does so by hand: the framework's binder needs
/// reflection, and its generator omits init-only properties.
/// </summary>
internal sealed class MappedFileLoggerBinder(ILoggerProviderConfiguration<MappedFileLoggerProvider> configuration)
    : IConfigureNamedOptions<MappedFileLoggerOptions>
{
    public void Configure(MappedFileLoggerOptions options) => Configure(Options.DefaultName, options);

    public void Configure(string? name, MappedFileLoggerOptions options)
    {
        try
        {
            IConfiguration section = configuration.Configuration;
            IConfiguration file = section.GetSection(nameof(options.File));
            Bind(section, options);
            options.File = Bind(file, options.File);
            RefuseUnknown(section, typeof(MappedFileLoggerOptions).GetProperties(), "LogLevel");
            RefuseUnknown(file, typeof(AppendFileOptions).GetProperties());
        }
        catch (InvalidOperationException error)
        {
            // An exception thrown here would surface on whatever thread noticed the change of configuration.
            options.ConfigurationError = error;
        }
    }

    private static void Bind(IConfiguration section, MappedFileLoggerOptions options)
    {
        options.Path = section[nameof(options.Path)] ?? options.Path;
        options.Format = Read(section, nameof(options.Format), options.Format, ToEnum<LogLineFormat>);
        options.IncludeScopes = Read(section, nameof(options.IncludeScopes), options.IncludeScopes, bool.Parse);
        options.RetryInterval = Read(section, nameof(options.RetryInterval), options.RetryInterval, ToTime);
    }

    private static AppendFileOptions Bind(IConfiguration section, AppendFileOptions file) => file with
    {
        BufferLength = Read(section, nameof(file.BufferLength), file.BufferLength, ToInt),
        FlushInterval = Read(section, nameof(file.FlushInterval), file.FlushInterval, ToTime),
        Durability = Read(section, nameof(file.Durability), file.Durability, ToEnum<AppendDurability>),
        Preallocation = Read(section, nameof(file.Preallocation), file.Preallocation, ToEnum<FilePreallocation>),
        PreallocationLength = Read(section, nameof(file.PreallocationLength), file.PreallocationLength, ToLong),
        Content = Read(section, nameof(file.Content), file.Content, ToEnum<FileContent>),
        Append = Read(section, nameof(file.Append), file.Append, bool.Parse),
        RollLength = Read(section, nameof(file.RollLength), file.RollLength, ToLong),
        RollInterval = Read(section, nameof(file.RollInterval), file.RollInterval, ToTime),
        RollAtMidnight = Read(section, nameof(file.RollAtMidnight), file.RollAtMidnight, bool.Parse),
        RetainedFileCount = Read(section, nameof(file.RetainedFileCount), file.RetainedFileCount, ToCount),
        RetainedAge = Read(section, nameof(file.RetainedAge), file.RetainedAge, ToAge),
        ReuseOldFiles = Read(section, nameof(file.ReuseOldFiles), file.ReuseOldFiles, bool.Parse),
        UnixCreateMode = Read(section, nameof(file.UnixCreateMode), file.UnixCreateMode, text => ToMode(text)),
    };

    private static void RefuseUnknown(IConfiguration section, PropertyInfo[] properties, params string[] others)
    {
        if (OptionsSection.FindUnknown(section, properties, others).FirstOrDefault() is { } unknown)
            throw new InvalidOperationException($"The log's configuration cannot be used: key=Logging:MappedFile:{unknown}");
    }

    /// <summary>The value of a key, or the given one if the key is missing.</summary>
    private static T Read<T>(IConfiguration section, string key, T otherwise, Func<string, T> parse)
    {
        if (section[key] is not { Length: > 0 } text)
            return otherwise;
        try
        {
            return parse(text);
        }
        catch (Exception error) when (error is FormatException or OverflowException or ArgumentException)
        {
            string path = section is IConfigurationSection { Path: var above } ? above + ":" + key : key;
            string allowed = typeof(T).IsEnum ? $" Use one of {string.Join(", ", typeof(T).GetEnumNames())}." : "";
            throw new InvalidOperationException(
                $"The log's configuration cannot be used: key=Logging:MappedFile:{path}, value={text}."
                    + $" {error.Message}{allowed}",
                error);
        }
    }

    private static int ToInt(string text) => int.Parse(text, NumberStyles.Integer, CultureInfo.InvariantCulture);

    private static long ToLong(string text) => long.Parse(text, NumberStyles.Integer, CultureInfo.InvariantCulture);

    private static TimeSpan ToTime(string text) =>
        text.Equals("infinite", StringComparison.OrdinalIgnoreCase)
            ? Timeout.InfiniteTimeSpan
            : TimeSpan.Parse(text, CultureInfo.InvariantCulture);

    /// <summary>Null for `all`, which takes the default's limit away.</summary>
    private static int? ToCount(string text) =>
        text.Equals("all", StringComparison.OrdinalIgnoreCase) ? null : ToInt(text);

    /// <summary>Null for `infinite`.</summary>
    private static TimeSpan? ToAge(string text) => ToTime(text) is var age && age == Timeout.InfiniteTimeSpan ? null : age;

    /// <summary>Accepts names only: a number that corresponds to no member would pass otherwise.</summary>
    private static T ToEnum<T>(string text)
        where T : struct, Enum =>
        Enum.GetNames<T>().Contains(text, StringComparer.OrdinalIgnoreCase)
            ? Enum.Parse<T>(text, ignoreCase: true)
            : throw new FormatException("There is no such name.");

    /// <summary>Accepts names, or digits as for chmod: `0640`.</summary>
    private static UnixFileMode ToMode(string text) =>
        char.IsAsciiDigit(text[0])
            ? (UnixFileMode)Convert.ToInt32(text, 8)
            : Enum.Parse<UnixFileMode>(text, ignoreCase: true);
}
