using MappedFileQueues.Files;

namespace MappedFileQueues.Hosting;

/// <summary>How a line of the log looks.</summary>
public enum LogLineFormat
{
    /// <summary>
    /// `2026-01-31T12:00:00.0000000Z info Category[7] the message`; scopes stand in front of the message, those that are nothing
    /// but names and values as `Name=value, Other=value`. Further lines of a message and an exception follow, indented by four
    /// spaces, so that only a new entry begins with a time. Other control characters (but the tab), invisible ones and those
    /// that turn the direction of text are written as `\u001B`. A level that is no defined one is its number.
    /// </summary>
    Text,

    /// <summary>
    /// A JSON object a line: `time`, `level`, `category`, `id` and `event` where there are any, `message`, `template`, `values`,
    /// `scopes`, `exception`. A scope is a string, or, with names and values, an object with `message` and `template` where there
    /// are any, and `values`. Values are numbers, booleans, null and strings; any other kind of value is the string that a
    /// message would hold.
    /// </summary>
    Json,
}

/// <summary>
/// What <see cref="MappedFileLoggerProvider"/> writes, and where. Copied when the provider is made; a provider that was added to
/// an application takes over what configuration says anew while it runs.
/// </summary>
public sealed class MappedFileLoggerOptions
{
    /// <summary>
    /// The file; it and the directories above it are made. It has to be set. While another process, or another provider, writes
    /// this file, lines go to one beside it: `app.2.log` instead of `app.log`, or the next number up to 99 that nobody holds.
    /// After each <see cref="RetryInterval"/> the provider tries to return to the file.
    /// </summary>
    public string Path { get; set; } = "";

    /// <summary>
    /// How the file is written: buffers, flushes, rolling, retention. Default: the defaults of <see cref="AppendFileOptions"/>; a
    /// killed process loses at most the lines of the last second, and nothing once the provider is disposed.
    /// </summary>
    public AppendFileOptions File { get; set; } = new();

    /// <summary>How a line looks; default <see cref="LogLineFormat.Text"/>.</summary>
    public LogLineFormat Format { get; set; } = LogLineFormat.Text;

    /// <summary>Whether scopes are written too; default false.</summary>
    public bool IncludeScopes { get; set; }

    /// <summary>The clock of the lines; default the system's.</summary>
    public TimeProvider TimeProvider { get; set; } = TimeProvider.System;

    /// <summary>
    /// After an error (a full disk), how long lines are dropped before the file is opened again; while another process holds the
    /// file, how often the provider tries to return to it, once a second at most. Default 5 s. The program that logs never gets
    /// an exception.
    /// </summary>
    public TimeSpan RetryInterval { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// Called with each error of the file, by the thread that met it, outside of every lock and once the file is closed; default:
    /// a line on standard error. A <see cref="QueueInUseException"/> says that the file is in use and lines go to another one
    /// (<see cref="MappedFileLoggerProvider.CurrentPath"/>); an <see cref="ArgumentException"/> or
    /// <see cref="InvalidOperationException"/> that configuration has changed to something that cannot be used, and the former
    /// settings stay. The handler may log: while the file cannot be written, what it logs is dropped without another call. What
    /// it throws is dropped too, so that the program that logs never gets it.
    /// </summary>
    public Action<Exception>? OnError { get; set; }

    /// <summary>What configuration says and nobody can use; thrown or reported by whoever takes the options.</summary>
    internal Exception? ConfigurationError { get; set; }

    /// <summary>Throws for what is out of its range; what concerns the file's own options is checked by the file.</summary>
    internal void Check()
    {
        if (ConfigurationError is { } error)
            throw error;
        if (string.IsNullOrWhiteSpace(Path))
        {
            throw new ArgumentException(
                "The log has no path. Set MappedFileLoggerOptions.Path, or Logging:MappedFile:Path in configuration.");
        }

        ArgumentNullException.ThrowIfNull(File);
        ArgumentNullException.ThrowIfNull(TimeProvider);
        ArgumentOutOfRangeException.ThrowIfLessThan(RetryInterval, TimeSpan.Zero);
        if (!Enum.IsDefined(Format))
            throw new ArgumentOutOfRangeException(nameof(Format), Format, "Format must be a defined one.");
    }
}
