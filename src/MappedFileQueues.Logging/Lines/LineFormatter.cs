using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting;

/// <summary>Makes the line around a message: text, or JSON.</summary>
internal abstract class LineFormatter(IExternalScopeProvider? scopes)
{
    /// <summary>The source of scopes; null when they are not written.</summary>
    public IExternalScopeProvider? Scopes { get; } = scopes;
}
