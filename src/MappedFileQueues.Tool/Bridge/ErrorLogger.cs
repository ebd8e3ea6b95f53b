using MappedFileQueues.Tool.Output;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Tool.Bridge;

/// <summary>Writes what a bridge logs to standard error, a line each; its last error is the command's own to tell.</summary>
internal sealed class ErrorLogger<T> : ILogger<T>
{
    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    public bool IsEnabled(LogLevel logLevel) => logLevel is >= LogLevel.Information and < LogLevel.Error;

    public void Log<TState>(
        LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        if (IsEnabled(logLevel))
            ErrorLine.Write(formatter(state, exception), ExitCodes.Success);
    }
}
