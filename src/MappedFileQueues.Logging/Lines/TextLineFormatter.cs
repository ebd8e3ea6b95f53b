using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting;

/// <summary>See <see cref="LogLineFormat.Text"/>.</summary>
internal sealed class TextLineFormatter(TimeProvider time, IExternalScopeProvider? scopes) : LineFormatter(scopes)
{
    /// <summary>Writes the part before the message; returns where foreign text begins, the category first.</summary>
    public int Begin(LineWriter writer, in LogEntry entry)
    {
        LineBuffer line = writer.Line;
        line.Write(time.GetUtcNow().UtcDateTime, "O");
        WriteLevel(line, entry.Level);
        int start = line.Length;
        line.Write(entry.Category);
        line.Write((byte)'[');
        line.Write(entry.Id.Id);
        line.Write("] "u8);
        Scopes?.ForEachScope(
            static (scope, writer) =>
            {
                writer.Line.Write(writer.HasScopes ? " => "u8 : "["u8);
                writer.HasScopes = true;
                ScopeWriter.WriteText(writer, scope);
            },
            writer);
        if (writer.HasScopes)
            line.Write("] "u8);
        return start;
    }

    /// <summary>Writes the part after the message, with the line end.</summary>
    public static void End(LineWriter writer, in LogEntry entry, int start)
    {
        LineBuffer line = writer.Line;
        if (entry.Exception is { } exception)
        {
            line.Write((byte)'\n');
            line.Write(MessageWriter.TextOf(exception, static exception => exception.ToString()));
        }

        if (ControlCharacters.AreIn(line.Written[start..]))
            Escape(writer, start);
        line.Write((byte)'\n');
    }

    /// <summary>Makes sure that only a new entry begins at the margin, whatever an entry holds.</summary>
    private static void Escape(LineWriter writer, int start)
    {
        LineBuffer line = writer.Line;
        LineBuffer copy = writer.Message;
        copy.Clear();
        copy.Write(line.Written[start..]);
        line.Truncate(start);
        ControlCharacters.WriteEscaped(line, copy.Written.TrimEnd("\r\n"u8));
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

    /// <summary>Empty for an undefined level.</summary>
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
