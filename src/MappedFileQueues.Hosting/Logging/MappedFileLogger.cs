using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting;

/// <summary>One category's logger. User code (formatters, ToString) runs outside of every lock, and may log itself.</summary>
internal sealed class MappedFileLogger(string category, LineFormatter formatter, LogFile file) : ILogger
{
    /// <summary>A buffer that one huge line made larger than this is not kept.</summary>
    private const int KeptLengthMax = 64 * 1024;

    [ThreadStatic]
    private static LineWriter? t_writer;

    public bool IsEnabled(LogLevel logLevel) => logLevel != LogLevel.None;

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => formatter.Scopes?.Push(state);

    public void Log<TState>(
        LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        ArgumentNullException.ThrowIfNull(formatter);
        if (!IsEnabled(logLevel))
            return;

        // Taken out while it is used: a formatter that logs gets another one.
        LineWriter writer = t_writer ?? new LineWriter();
        t_writer = null;
        try
        {
            WriteLine(writer, new LogEntry(category, logLevel, eventId, exception), in state, formatter);
        }
        finally
        {
            writer.Clear();
            if (writer.Capacity <= KeptLengthMax)
                t_writer = writer;
        }
    }

    private void WriteLine<TState>(
        LineWriter writer, in LogEntry entry, in TState state, Func<TState, Exception?, string> messageFormatter)
    {
        StateReader<TState>? reader = StateReader<TState>.Instance;

        // Not by a virtual method of the formatter: with a type parameter such a call costs 5 ns, and there are two formatters.
        if (formatter is TextLineFormatter text)
        {
            int start = text.Begin(writer, in entry);
            WriteMessage(writer.Line, reader, in entry, in state, messageFormatter);
            TextLineFormatter.End(writer, in entry, start);
        }
        else
        {
            WriteMessage(writer.Message, reader, in entry, in state, messageFormatter);
            ((JsonLineFormatter)formatter).Write(writer, in entry, reader, in state);
        }

        file.Write(writer.Line.Written);
    }

    private static void WriteMessage<TState>(
        LineBuffer target,
        StateReader<TState>? reader,
        in LogEntry entry,
        in TState state,
        Func<TState, Exception?, string> messageFormatter)
    {
        if (!MessageWriter.TryRender(target, reader, in state, messageFormatter))
            target.Write(messageFormatter(state, entry.Exception));
    }
}

/// <summary>What a line is made of beside message and values.</summary>
internal readonly record struct LogEntry(string Category, LogLevel Level, EventId Id, Exception? Exception);
