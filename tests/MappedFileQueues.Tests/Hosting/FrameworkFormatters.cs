using System.Collections;
using System.Text.Json;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Microsoft.Extensions.Logging.Console;

namespace MappedFileQueues.Tests.Hosting;

/// <summary>
/// A logger that notes what the framework itself says: the message of the caller's formatter, the line of the console's JSON
/// formatter, and the scopes of that moment.
/// </summary>
internal sealed class FrameworkFormatters : ILogger, IDisposable
{
    private readonly ServiceProvider _services;
    private readonly ConsoleFormatter _json;

    public FrameworkFormatters()
    {
        _services = new ServiceCollection()
            .AddLogging(logging => logging.AddConsole().AddJsonConsole(options => options.IncludeScopes = true))
            .BuildServiceProvider();
        _json = _services.GetServices<ConsoleFormatter>().Single(formatter => formatter.Name == ConsoleFormatterNames.Json);
    }

    /// <summary>What the calls said, in their order.</summary>
    public List<Entry> Entries { get; } = [];

    /// <summary>Noted with each entry.</summary>
    public int Seed { get; set; }

    public IExternalScopeProvider Scopes { get; } = new LoggerExternalScopeProvider();

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => Scopes.Push(state);

    public bool IsEnabled(LogLevel logLevel) => true;

    public void Log<TState>(
        LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        string? message = null;
        JsonElement? line = null;
        try
        {
            message = formatter(state, exception);
            StringWriter text = new();

            // Only lists keep their values there: a dictionary is handed over as the list of its pairs.
            object? pairs = PairsOf(state);
            _json.Write(new LogEntry<object?>(logLevel, "C", eventId, pairs, exception, (_, _) => message), Scopes, text);
            line = JsonElement.Parse(text.ToString());
        }
        catch (Exception)
        {
            // The framework throws into the program for what it cannot format, and for numbers that JSON does not have.
        }

        List<object?> scopes = [];
        Scopes.ForEachScope(static (scope, scopes) => scopes.Add(scope), scopes);
        Entries.Add(new Entry(Seed, message, line, scopes));
    }

    public void Dispose() => _services.Dispose();

    /// <summary>The text that the framework writes for a value in a message; null when it throws.</summary>
    public static string? TextOf(object? value)
    {
        TextLogger logger = new();
        try
        {
            logger.LogInformation("{Value}", [value]);
        }
        catch (Exception)
        {
            return null;
        }

        return logger.Text;
    }

    private static object? PairsOf(object? state)
    {
        if (state is IReadOnlyCollection<KeyValuePair<string, object?>> and not IReadOnlyList<KeyValuePair<string, object?>>)
            return ((IEnumerable<KeyValuePair<string, object?>>)state).ToList();
        if (state is not IDictionary dictionary || state is IReadOnlyCollection<KeyValuePair<string, object?>>)
            return state;
        List<KeyValuePair<string, object?>> pairs = [];
        foreach (DictionaryEntry entry in dictionary)
            pairs.Add(new KeyValuePair<string, object?>(entry.Key.ToString()!, entry.Value));
        return pairs;
    }

    /// <summary>What one call said: null for what it threw for.</summary>
    internal sealed record Entry(int Seed, string? Message, JsonElement? Json, IReadOnlyList<object?> Scopes);

    private sealed class TextLogger : ILogger
    {
        public string? Text { get; private set; }

        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => true;

        public void Log<TState>(
            LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
            Text = formatter(state, exception);
    }
}
