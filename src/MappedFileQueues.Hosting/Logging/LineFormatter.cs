using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting;

/// <summary>Makes the line around a message.</summary>
internal abstract class LineFormatter
{
    private volatile IExternalScopeProvider? _scopes;

    /// <summary>Where scopes come from; null when they are not written.</summary>
    public IExternalScopeProvider? Scopes
    {
        get => _scopes;
        set => _scopes = value;
    }

    /// <summary>Writes the line, with its end, from the message that stands in the writer.</summary>
    public abstract void Write<TState>(
        LineWriter writer, in LogEntry entry, StateReader<TState>? reader, ref readonly TState state);

    /// <summary>A scope as text; those with a template without the string that ToString would make.</summary>
    protected static void WriteScope(LineBuffer target, object? scope)
    {
        if (scope is IReadOnlyList<KeyValuePair<string, object?>> values
            && scope.GetType().Assembly == typeof(ILogger).Assembly
            && MessageWriter.TryRender(target, values))
            return;
        MessageWriter.WriteValue(target, scope is string ? scope : scope?.ToString(), null);
    }
}
