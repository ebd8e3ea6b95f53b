using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting.Telemetry;

/// <summary>
/// A logger whose providers may fail: what they throw would end the consumer that tells something, or keep a segment from being
/// removed. Nobody is left to be told.
/// </summary>
internal sealed class QuietLogger(ILogger inner) : ILogger
{
    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => inner.BeginScope(state);

    public bool IsEnabled(LogLevel logLevel)
    {
        try
        {
            return inner.IsEnabled(logLevel);
        }
        catch (Exception error) when (error is not OutOfMemoryException)
        {
            return false;
        }
    }

    public void Log<TState>(
        LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        try
        {
            inner.Log(logLevel, eventId, state, exception, formatter);
        }
        catch (Exception error) when (error is not OutOfMemoryException)
        {
        }
    }
}
