using System.Collections.Concurrent;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.Hosting;

/// <summary>
/// Creates loggers that write their lines to a file through a <see cref="Files.AppendFileStream"/>. A line is formatted as UTF-8
/// in a buffer of the thread and appended in one piece, in the order of the thread's calls.
/// <para>In steady state a line allocates nothing if its message comes from LoggerMessage (the attribute or Define) or from a
/// template of the Log… methods. The caller's side of the interface still allocates: a box for each value that is a struct, the
/// array and boxes of the Log… methods, scopes. The provider allocates for other kinds of formatters (they return a string), for
/// generated methods of the kind that is not Define when a value is null or has items, for exceptions (their text is a string),
/// and for values without IUtf8SpanFormattable or ISpanFormattable (ToString).</para>
/// <para>Logging never throws because of what is logged: if a value, a scope or a formatter throws, the line says so.</para>
/// <para>Disposing writes the remaining lines; so does the end of the process, also by an unhandled exception. A signal that
/// nobody handles, and <see cref="Environment.FailFast(string?)"/>, lose what came since the last flush, at most
/// <see cref="Files.AppendFileOptions.FlushInterval"/>. Any thread may use any member.</para>
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
    /// Opens the file, or one beside it if another process holds it: see <see cref="MappedFileLoggerOptions.Path"/>.
    /// </summary>
    /// <param name="options">What to write, and where; copied.</param>
    /// <exception cref="ArgumentException">An option is out of range.</exception>
    /// <exception cref="QueueDiskException">The file cannot be opened: permission is missing, or the disk is full.</exception>
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
        try
        {
            // They may have changed while the file was opened, of which nobody was told.
            Change(monitor.Get(optionsName));
        }
        catch
        {
            Dispose();
            throw;
        }
    }

    /// <summary>
    /// How many lines were dropped because the file could not be written. Lines that were in the buffer at the time of the error
    /// are not counted: the exception passed to <see cref="MappedFileLoggerOptions.OnError"/> says how many bytes they were.
    /// </summary>
    public long LostLineCount => File.LostCount;

    /// <summary>
    /// The full path of the file that is being written: the one of the options, or one beside it while another process holds
    /// that; null while there is none.
    /// </summary>
    public string? CurrentPath => File.CurrentPath;

    /// <summary>Formats the lines; replaced after a change of configuration.</summary>
    internal LineFormatter Formatter => _formatter;

    internal LogFile File { get; }

    /// <summary>Creates the logger of a category.</summary>
    /// <param name="categoryName">The category.</param>
    public ILogger CreateLogger(string categoryName) =>
        _loggers.GetOrAdd(categoryName, static (name, self) => new MappedFileLogger(name, self), this);

    /// <summary>Shares the application's scopes; the logger factory calls it.</summary>
    /// <param name="scopeProvider">The scopes.</param>
    public void SetScopeProvider(IExternalScopeProvider scopeProvider)
    {
        lock (_changing)
        {
            _scopes = scopeProvider;
            _formatter = _lines.MakeFormatter(scopeProvider);
        }
    }

    /// <summary>Passes the lines logged so far to the system, or to the disk.</summary>
    /// <param name="durable">True if they have to survive a power loss.</param>
    public void Flush(bool durable = false) => File.Flush(durable);

    /// <summary>Writes the remaining lines and closes the file. Lines logged afterwards are dropped.</summary>
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

            // Each source of the configuration reports the same change.
            if (refusal?.Message == _refusal)
                refusal = null;
            else
                _refusal = refusal?.Message;
        }

        // Outside the lock, because handlers may wait for other threads.
        if (refusal is not null)
            File.Report(refusal);
        if (report is not null)
            File.Report(report);
    }

    /// <summary>
    /// Continues with these options, or returns the reason why not; <paramref name="report"/>: what else happened.
    /// </summary>
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

    /// <summary>A copy of the options that concern the lines.</summary>
    private readonly record struct LineSettings(LogLineFormat Format, bool IncludesScopes, TimeProvider Time)
    {
        public static LineSettings Of(MappedFileLoggerOptions options) =>
            new(options.Format, options.IncludeScopes, options.TimeProvider);

        public LineFormatter MakeFormatter(IExternalScopeProvider scopes) => Format == LogLineFormat.Json
            ? new JsonLineFormatter(Time, IncludesScopes ? scopes : null)
            : new TextLineFormatter(Time, IncludesScopes ? scopes : null);
    }
}
