using Microsoft.CodeAnalysis;

namespace MappedFileQueues.Analyzers;

/// <summary>Bytes of a struct that belong to no field.</summary>
internal readonly struct LayoutGap(int offset, int length, IFieldSymbol? after)
{
    public int Offset { get; } = offset;

    public int Length { get; } = length;

    /// <summary>The field before them; null for those at the end.</summary>
    public IFieldSymbol? After { get; } = after;
}
