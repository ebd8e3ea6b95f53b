using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting;

/// <summary>See <see cref="LogLineFormat.Text"/>.</summary>
internal sealed class TextLineFormatter(TimeProvider time) : LineFormatter
{
    /// <summary>Writes what stands before the message; gives where what the entry says begins, scopes first.</summary>
    public int Begin(LineWriter writer, in LogEntry entry)
    {
        LineBuffer line = writer.Line;
        line.Write(time.GetUtcNow().UtcDateTime, "O");
        WriteLevel(line, entry.Level);
        line.Write(entry.Category);
        line.Write((byte)'[');
        line.Write(entry.Id.Id);
        line.Write("] "u8);
        int start = line.Length;
        Scopes?.ForEachScope(
            static (scope, writer) =>
            {
                writer.Line.Write(writer.HasScopes ? " => "u8 : "["u8);
                writer.HasScopes = true;
                WriteScope(writer.Line, scope);
            },
            writer);
        if (writer.HasScopes)
            line.Write("] "u8);
        return start;
    }

    /// <summary>Writes what stands behind the message, with the line's end.</summary>
    public static void End(LineWriter writer, in LogEntry entry, int start)
    {
        LineBuffer line = writer.Line;
        if (entry.Exception is { } exception)
        {
            line.Write((byte)'\n');
            line.Write(exception.ToString());
        }

        if (line.Written[start..].IndexOfAny((byte)'\n', (byte)'\r') >= 0)
            Indent(writer, start);
        line.Write((byte)'\n');
    }

    /// <summary>Whatever a message holds, only a new entry begins at the margin.</summary>
    private static void Indent(LineWriter writer, int start)
    {
        LineBuffer line = writer.Line;
        LineBuffer copy = writer.Message;
        copy.Clear();
        copy.Write(line.Written[start..]);
        line.Advance(start - line.Length);
        Span<byte> text = copy.Written.TrimEnd("\r\n"u8);
        foreach (byte letter in text)
        {
            if (letter == '\n')
                line.Write("\n    "u8);
            else if (letter != '\r')
                line.Write(letter);
        }
    }

    private static void WriteLevel(LineBuffer line, LogLevel level)
    {
        line.Write((byte)' ');
        if (NameOf(level) is { IsEmpty: false } name)
            line.Write(name);
        else
            line.Write((int)level);
        line.Write((byte)' ');
    }

    /// <summary>Empty for a level that is no defined one.</summary>
    private static ReadOnlySpan<byte> NameOf(LogLevel level) => level switch
    {
        LogLevel.Trace => "trce"u8,
        LogLevel.Debug => "dbug"u8,
        LogLevel.Information => "info"u8,
        LogLevel.Warning => "warn"u8,
        LogLevel.Error => "fail"u8,
        LogLevel.Critical => "crit"u8,
        _ => default,
    };
}
