using System.Collections.Concurrent;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.Hosting;

/// <summary>
/// Loggers whose lines go into a file through a <see cref="Files.AppendFileStream"/>: made as UTF-8 in a buffer of the thread and
/// appended in one piece, in the order in which the calls of one thread are made.
/// <para>A line allocates nothing in steady state where the message comes from LoggerMessage (the attribute or Define) or from a
/// template of the Log… methods, but for what the caller's own side of the interface makes: a box for each value that is a
/// struct, the array and boxes of the Log… methods, scopes. What does allocate here: formatters of other kinds (they return a
/// string), generated methods of the kind that is no Define when a value is null or has items, exceptions (their text is a
/// string), values without IUtf8SpanFormattable or ISpanFormattable (ToString).</para>
/// <para>Logging never throws for what is logged: where a value, a scope or a formatter throws, the line says so.</para>
/// <para>Disposing writes what is left. All members may be used by any thread.</para>
/// </summary>
[ProviderAlias("MappedFile")]
public sealed class MappedFileLoggerProvider : ILoggerProvider, ISupportExternalScope, IAsyncDisposable
{
    private readonly ConcurrentDictionary<string, MappedFileLogger> _loggers = new(StringComparer.Ordinal);
    private readonly Lock _changing = new();
    private readonly IDisposable? _changes;
    private LineSettings _lines;
    private string? _refusal;
    private IExternalScopeProvider _scopes = new LoggerExternalScopeProvider();
    private volatile LineFormatter _formatter;

    /// <summary>
    /// Opens the file. When another process holds it, the one beside it: see <see cref="MappedFileLoggerOptions.Path"/>.
    /// </summary>
    /// <param name="options">What to write, and where; copied.</param>
    /// <exception cref="ArgumentException">An option is out of its range.</exception>
    /// <exception cref="QueueDiskException">The file cannot be opened: no rights, a full disk.</exception>
    public MappedFileLoggerProvider(MappedFileLoggerOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        options.Check();
        _lines = LineSettings.Of(options);
        _formatter = _lines.MakeFormatter(_scopes);
        File = new LogFile(LogFileSettings.Of(options));
    }

    /// <summary>Follows the options of this name.</summary>
    internal MappedFileLoggerProvider(IOptionsMonitor<MappedFileLoggerOptions> monitor, string optionsName)
        : this(monitor.Get(optionsName))
    {
        _changes = monitor.OnChange((options, name) =>
        {
            if (name == optionsName)
                Change(options);
        });
    }

    /// <summary>
    /// How many lines were dropped because the file could not be written. Those that stood in the buffer when the error came
    /// are not among them: the exception that <see cref="MappedFileLoggerOptions.OnError"/> gets says how many bytes these were.
    /// </summary>
    public long LostLineCount => File.LostCount;

    /// <summary>
    /// The full path of the file that is being written: the one of the options, or one beside it while another process holds
    /// that; null while there is none.
    /// </summary>
    public string? CurrentPath => File.CurrentPath;

    /// <summary>What makes the lines; another one after a change of configuration.</summary>
    internal LineFormatter Formatter => _formatter;

    internal LogFile File { get; }

    /// <summary>The logger of a category.</summary>
    /// <param name="categoryName">The category.</param>
    public ILogger CreateLogger(string categoryName) =>
        _loggers.GetOrAdd(categoryName, static (name, self) => new MappedFileLogger(name, self), this);

    /// <summary>Shares the application's scopes; called by the logger factory.</summary>
    /// <param name="scopeProvider">The scopes.</param>
    public void SetScopeProvider(IExternalScopeProvider scopeProvider)
    {
        lock (_changing)
        {
            _scopes = scopeProvider;
            _formatter = _lines.MakeFormatter(scopeProvider);
        }
    }

    /// <summary>Hands the lines logged so far to the system, or to the disk.</summary>
    /// <param name="durable">Whether they have to survive a power cut.</param>
    public void Flush(bool durable = false) => File.Flush(durable);

    /// <summary>Writes what is left and closes the file. Lines logged afterwards are dropped.</summary>
    public void Dispose()
    {
        _changes?.Dispose();
        File.Dispose();
    }

    /// <inheritdoc cref="Dispose"/>
    public ValueTask DisposeAsync() => new(Task.Run(Dispose));

    private void Change(MappedFileLoggerOptions options)
    {
        Exception? refusal;
        Exception? report;
        lock (_changing)
        {
            refusal = TryApply(options, out report);

            // One change of configuration is told by each of its sources.
            if (refusal?.Message == _refusal)
                refusal = null;
            else
                _refusal = refusal?.Message;
        }

        // Outside of the lock: handlers may wait for others.
        if (refusal is not null)
            File.Report(refusal);
        if (report is not null)
            File.Report(report);
    }

    /// <summary>Goes on with these options, or says why not; <paramref name="report"/>: what else happened.</summary>
    private Exception? TryApply(MappedFileLoggerOptions options, out Exception? report)
    {
        report = null;
        LogFileSettings file;
        try
        {
            options.Check();
            file = LogFileSettings.Of(options);
        }
        catch (Exception error) when (error is ArgumentException or InvalidOperationException)
        {
            return error;
        }

        Exception? refusal = File.TryChange(file, out report);
        if (refusal is null)
        {
            _lines = LineSettings.Of(options);
            _formatter = _lines.MakeFormatter(_scopes);
        }

        return refusal;
    }

    /// <summary>What the lines take from the options: a copy.</summary>
    private readonly record struct LineSettings(LogLineFormat Format, bool IncludesScopes, TimeProvider Time)
    {
        public static LineSettings Of(MappedFileLoggerOptions options) =>
            new(options.Format, options.IncludeScopes, options.TimeProvider);

        public LineFormatter MakeFormatter(IExternalScopeProvider scopes) => Format == LogLineFormat.Json
            ? new JsonLineFormatter(Time, IncludesScopes ? scopes : null)
            : new TextLineFormatter(Time, IncludesScopes ? scopes : null);
    }
}
