using MappedFileQueues.Files;

namespace MappedFileQueues.Hosting;

/// <summary>The format of a log line.</summary>
public enum LogLineFormat
{
    /// <summary>
    /// `2026-01-31T12:00:00.0000000Z info Category[7] the message`. Scopes precede the message; a scope of only names and values
    /// is written as `Name=value, Other=value`. Further lines of a message and an exception follow, indented by four spaces, so
    /// that only a new entry begins with a time. Control characters other than the tab, invisible characters and those that
    /// change the direction of text are written as `\u001B`. An undefined level is written as its number.
    /// </summary>
    Text,

    /// <summary>
    /// One JSON object per line: `time`, `level`, `category`, `id` and `event` if there are any, `traceId` and `spanId` of the
    /// current activity if there is one, `message`, `template`, `values`, `scopes`, `exception`. A scope is a string or, if it
    /// has names and values, an object with `message` and `template`, if there are any, and `values`. Values are numbers,
    /// booleans, null and strings; any other kind of value is written as the string that a message would hold.
    /// </summary>
    Json,
}

/// <summary>
/// What <see cref="MappedFileLoggerProvider"/> writes, and where. The provider copies the options when it is created. A provider
/// that was added to an application applies changes of the configuration while it runs.
/// </summary>
public sealed class MappedFileLoggerOptions
{
    private const long RollLengthDefault = 64L * 1024 * 1024;
    private const int RetainedCountDefault = 15;

    /// <summary>
    /// The path of the file; required. The file and the directories above it are created. While another process or another
    /// provider writes this file, lines go to one beside it: `app.2.log` instead of `app.log`, or the next number up to 99 that
    /// is free. After each <see cref="RetryInterval"/> the provider tries to return to the file.
    /// </summary>
    public string Path { get; set; } = "";

    /// <summary>
    /// How the file is written: buffers, flushes, rolling, retention. The default is that of <see cref="AppendFileOptions"/> with
    /// a <see cref="AppendFileOptions.RollLength"/> of 64 MiB and a <see cref="AppendFileOptions.RetainedFileCount"/> of 15, so
    /// that a log takes 1 GiB at most. A killed process loses at most the lines of the last second, and nothing once the provider
    /// is disposed. Code that sets some of it and wants to keep the rest writes `options.File = options.File with { … }`.
    /// </summary>
    public AppendFileOptions File { get; set; } =
        new() { RollLength = RollLengthDefault, RetainedFileCount = RetainedCountDefault };

    /// <summary>The format of a line; default <see cref="LogLineFormat.Text"/>.</summary>
    public LogLineFormat Format { get; set; } = LogLineFormat.Text;

    /// <summary>True to write scopes, too; default false.</summary>
    public bool IncludeScopes { get; set; }

    /// <summary>The clock for the times of the lines; default the system's.</summary>
    public TimeProvider TimeProvider { get; set; } = TimeProvider.System;

    /// <summary>
    /// How long lines are dropped after an error (a full disk) before the file is opened again. While another process holds the
    /// file: how often the provider tries to return to it, at most once a second. Default 5 s. The program that logs never gets
    /// an exception.
    /// </summary>
    public TimeSpan RetryInterval { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// Called with each error of the file, outside all locks. Default: writes a line to standard error. An error that ends
    /// writing is reported by the thread that met it, after the file is closed. A <see cref="QueueInUseException"/> says that the
    /// file is in use and lines go to another one (<see cref="MappedFileLoggerProvider.CurrentPath"/>). An
    /// <see cref="ArgumentException"/> or <see cref="InvalidOperationException"/> says that the configuration has changed to
    /// something that cannot be used, and the former settings stay. What <see cref="AppendFileOptions.OnError"/> tells comes here
    /// too: the file cannot be rolled, or a closed one not deleted, and lines are written all the same. The handler may log:
    /// while the file cannot be written, its lines are dropped without another call. Exceptions of the handler are dropped too,
    /// so that the program that logs never gets them.
    /// </summary>
    public Action<Exception>? OnError { get; set; }

    /// <summary>
    /// Called with each file that was rolled (by length, by age, at midnight) and is kept, in their order, by one thread of the
    /// pool at a time; default null. Lines do not wait for it, nor does Dispose. What it throws goes to <see cref="OnError"/>, in
    /// a <see cref="System.Reflection.TargetInvocationException"/>. It may log.
    /// </summary>
    public Action<RolledFile>? OnRolled { get; set; }

    /// <summary>The error of an unusable configuration; the code that takes the options throws or reports it.</summary>
    internal Exception? ConfigurationError { get; set; }

    /// <summary>Throws if an option is out of range; the file checks its own options.</summary>
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
            throw new ArgumentOutOfRangeException(nameof(Format), Format, "The format is not defined.");
    }
}
