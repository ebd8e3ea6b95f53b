using System.Collections.Concurrent;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Tests.Hosting;

/// <summary>Keeps the entries of an application's log.</summary>
internal sealed class CollectedLog : ILoggerProvider, ILogger
{
    private readonly ConcurrentQueue<(int Id, LogLevel Level, string Text)> _entries = [];
    private readonly ConcurrentQueue<int> _stacks = [];

    public IReadOnlyCollection<(int Id, LogLevel Level, string Text)> Entries => _entries;

    /// <summary>The text of the first entry with this number; waits for it.</summary>
    public string WaitFor(int id)
    {
        Eventually.True(() => _entries.Any(entry => entry.Id == id), $"the log holds event {id}");
        return _entries.First(entry => entry.Id == id).Text;
    }

    public int CountOf(int id) => _entries.Count(entry => entry.Id == id);

    /// <summary>How many entries with this number hold an exception.</summary>
    public int StackCountOf(int id) => _stacks.Count(stack => stack == id);

    public ILogger CreateLogger(string categoryName) => this;

    public bool IsEnabled(LogLevel logLevel) => true;

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    public void Log<TState>(
        LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        if (exception is not null)
            _stacks.Enqueue(eventId.Id);
        _entries.Enqueue((eventId.Id, logLevel, formatter(state, exception)));
    }

    public void Dispose()
    {
    }
}
