using System.Collections.Concurrent;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting;

/// <summary>
/// Loggers whose lines go into a file through a <see cref="Files.AppendFileStream"/>: made as UTF-8 in a buffer of the thread and
/// appended in one piece, in the order in which the calls of one thread are made.
/// <para>A line allocates nothing in steady state where the message comes from LoggerMessage (the attribute or Define) or from a
/// template of the Log… methods, but for what the caller's own side of the interface makes: a box for each value that is a
/// struct, the array and boxes of the Log… methods, scopes. What does allocate here: formatters of other kinds (they return a
/// string), exceptions (their text is a string), values without IUtf8SpanFormattable or ISpanFormattable (ToString).</para>
/// <para>Disposing writes what is left. All members may be used by any thread.</para>
/// </summary>
[ProviderAlias("MappedFile")]
public sealed class MappedFileLoggerProvider : ILoggerProvider, ISupportExternalScope, IAsyncDisposable
{
    private readonly ConcurrentDictionary<string, MappedFileLogger> _loggers = new(StringComparer.Ordinal);
    private readonly LogFile _file;
    private readonly LineFormatter _formatter;

    /// <summary>Opens the file.</summary>
    /// <param name="options">What to write, and where; copied.</param>
    /// <exception cref="ArgumentException">An option is out of its range.</exception>
    /// <exception cref="MappedFileQueueException">The file cannot be opened: in use by another, no rights, a full
    /// disk.</exception>
    public MappedFileLoggerProvider(MappedFileLoggerOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentException.ThrowIfNullOrWhiteSpace(options.Path);
        ArgumentNullException.ThrowIfNull(options.File);
        ArgumentNullException.ThrowIfNull(options.TimeProvider);
        ArgumentOutOfRangeException.ThrowIfLessThan(options.RetryInterval, TimeSpan.Zero);
        _formatter = options.Format switch
        {
            LogLineFormat.Text => new TextLineFormatter(options.TimeProvider),
            LogLineFormat.Json => new JsonLineFormatter(options.TimeProvider),
            _ => throw new ArgumentOutOfRangeException(nameof(options), options.Format, "Format must be a defined one."),
        };
        if (options.IncludeScopes)
            _formatter.Scopes = new LoggerExternalScopeProvider();
        _file = new LogFile(options);
    }

    /// <summary>
    /// How many lines were dropped because the file could not be written. Those that stood in the buffer when the error came
    /// are not among them: the exception that <see cref="MappedFileLoggerOptions.OnError"/> gets says how many bytes these were.
    /// </summary>
    public long LostLineCount => _file.LostCount;

    /// <summary>The logger of a category.</summary>
    /// <param name="categoryName">The category.</param>
    public ILogger CreateLogger(string categoryName) =>
        _loggers.GetOrAdd(categoryName, static (name, self) => new MappedFileLogger(name, self._formatter, self._file), this);

    /// <summary>Shares the application's scopes; called by the logger factory.</summary>
    /// <param name="scopeProvider">The scopes.</param>
    public void SetScopeProvider(IExternalScopeProvider scopeProvider)
    {
        if (_formatter.Scopes is not null)
            _formatter.Scopes = scopeProvider;
    }

    /// <summary>Hands the lines logged so far to the system, or to the disk.</summary>
    /// <param name="durable">Whether they have to survive a power cut.</param>
    public void Flush(bool durable = false) => _file.Flush(durable);

    /// <summary>Writes what is left and closes the file. Lines logged afterwards are dropped.</summary>
    public void Dispose() => _file.Dispose();

    /// <inheritdoc cref="Dispose"/>
    public ValueTask DisposeAsync() => new(Task.Run(Dispose));
}
