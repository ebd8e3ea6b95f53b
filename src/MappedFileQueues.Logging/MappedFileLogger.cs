using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting;

/// <summary>
/// The logger of one category. User code (formatters, ToString) runs outside all locks, and may log itself. If it throws, the
/// exception is written to the line and never reaches the program that logs.
/// </summary>
internal sealed class MappedFileLogger(string category, MappedFileLoggerProvider provider) : ILogger
{
    /// <summary>A buffer larger than this, after one huge line, is not kept.</summary>
    private const int KeptLengthMax = 64 * 1024;

    [ThreadStatic]
    private static LineWriter? t_writer;

    public bool IsEnabled(LogLevel logLevel) => logLevel != LogLevel.None;

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => provider.Formatter.Scopes?.Push(state);

    public void Log<TState>(
        LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        ArgumentNullException.ThrowIfNull(formatter);
        if (!IsEnabled(logLevel))
            return;

        // Taken out while in use: a formatter that logs gets another one.
        LineWriter writer = t_writer ?? new LineWriter();
        t_writer = null;
        LogEntry entry = new(category, logLevel, eventId, exception);
        try
        {
            if (TryMakeLine(writer, in entry, in state, formatter))
                provider.File.Write(writer.Line.Written);
        }
        catch (Exception error)
        {
            writer.Clear();
            WriteFailed(writer, in entry, in state, error);
        }
        finally
        {
            writer.Clear();
            if (writer.Capacity <= KeptLengthMax)
                t_writer = writer;
        }
    }

    /// <summary>False when there is nothing to write: neither a message nor an exception.</summary>
    private bool TryMakeLine<TState>(
        LineWriter writer, in LogEntry entry, in TState state, Func<TState, Exception?, string> messageFormatter)
    {
        StateReader<TState>? reader = state is null ? null : StateReader<TState>.Instance;

        // Not a virtual method of the formatter: with a type parameter such a call costs 5 ns, and there are two formatters.
        LineFormatter formatter = provider.Formatter;
        if (formatter is TextLineFormatter text)
        {
            int start = text.Begin(writer, in entry);
            if (!TryWriteMessage(writer.Line, reader, in entry, in state, messageFormatter))
                return false;
            TextLineFormatter.End(writer, in entry, start);
        }
        else
        {
            if (!TryWriteMessage(writer.Message, reader, in entry, in state, messageFormatter))
                return false;
            ((JsonLineFormatter)formatter).Write(writer, in entry, reader, in state);
        }

        return true;
    }

    private static bool TryWriteMessage<TState>(
        LineBuffer target,
        StateReader<TState>? reader,
        in LogEntry entry,
        in TState state,
        Func<TState, Exception?, string> messageFormatter)
    {
        if (MessageWriter.TryRender(target, reader, in state, messageFormatter))
            return true;
        string? message = messageFormatter(state, entry.Exception);
        target.Write(message);
        return message is not null || entry.Exception is not null;
    }

    /// <summary>
    /// Writes an entry whose message, values or scopes threw: the template as it is, if it is available, and the exception.
    /// </summary>
    private void WriteFailed<TState>(LineWriter writer, in LogEntry entry, in TState state, Exception error)
    {
        try
        {
            string template = TemplateOf(in state);
            _ = TryMakeLine(writer, in entry, new FailedState(template, error), static (state, _) => state.ToString());
            provider.File.Write(writer.Line.Written);
        }
        catch (Exception)
        {
            // The clock failed, for example, or memory is exhausted: there is nothing left to write.
            provider.File.CountLost();
        }
    }

    private static string TemplateOf<TState>(in TState state)
    {
        try
        {
            return state is not null && StateReader<TState>.Instance is { } reader
                ? MessageWriter.TemplateOf(reader, in state, reader.Count(in state)) ?? ""
                : "";
        }
        catch (Exception)
        {
            return "";
        }
    }

    /// <summary>The message of an entry that could not be formatted.</summary>
    private readonly record struct FailedState(string Template, Exception Error)
    {
        public override string ToString()
        {
            string error = $"{Error.GetType().Name}: {MessageWriter.TextOf(Error, static error => error.Message)}";
            return $"{Template}{(Template.Length > 0 ? " " : "")}(the entry could not be formatted: {error})";
        }
    }
}

/// <summary>The parts of a line besides message and values.</summary>
internal readonly record struct LogEntry(string Category, LogLevel Level, EventId Id, Exception? Exception);
