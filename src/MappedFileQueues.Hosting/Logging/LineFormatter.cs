using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting;

/// <summary>Makes the line around a message: text, or JSON.</summary>
internal abstract class LineFormatter
{
    private volatile IExternalScopeProvider? _scopes;

    /// <summary>Where scopes come from; null when they are not written.</summary>
    public IExternalScopeProvider? Scopes
    {
        get => _scopes;
        set => _scopes = value;
    }

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
