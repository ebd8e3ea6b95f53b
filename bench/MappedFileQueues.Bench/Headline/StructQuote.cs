using System.Runtime.CompilerServices;

namespace MappedFileQueues.Bench.Headline;

/// <summary>The object of the headline table as a struct: 48 bytes.</summary>
internal struct StructQuote
{
    public int Number;
    public long Time;
    public double Price;
    public QuoteName Name;
}

/// <summary>Ten characters.</summary>
[InlineArray(10)]
internal struct QuoteName
{
    private char _first;
}
