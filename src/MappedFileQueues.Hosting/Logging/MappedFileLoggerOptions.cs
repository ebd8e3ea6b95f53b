using MappedFileQueues.Files;

namespace MappedFileQueues.Hosting;

/// <summary>How a line of the log looks.</summary>
public enum LogLineFormat
{
    /// <summary>
    /// `2026-01-31T12:00:00.0000000Z info Category[7] the message`; scopes stand in front of the message; further lines of a
    /// message and an exception follow, indented by four spaces, so that only a new entry begins with a time. A level that is
    /// no defined one is its number.
    /// </summary>
    Text,

    /// <summary>
    /// A JSON object a line: `time`, `level`, `category`, `id` and `event` where there are any, `message`, `template`, `values`,
    /// `scopes`, `exception`.
    /// </summary>
    Json,
}

/// <summary>What <see cref="MappedFileLoggerProvider"/> writes, and where. Copied when the provider is made.</summary>
public sealed class MappedFileLoggerOptions
{
    /// <summary>The file. Required.</summary>
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
    /// After an error (a full disk), how long lines are dropped before the file is opened again; default 5 s. The program that
    /// logs never gets an exception.
    /// </summary>
    public TimeSpan RetryInterval { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// Called with each error of the file, by the thread that met it, outside of every lock and once the file is closed; default:
    /// a line on standard error. It may log: while the file cannot be written, what it logs is dropped without another call. What
    /// it throws is dropped too, so that the program that logs never gets it.
    /// </summary>
    public Action<Exception>? OnError { get; set; }
}
