using MemoryPack;
using MessagePack;

namespace MappedFileQueues.Bench.Serializers;

/// <summary>The object of the headline table for MessagePack and MemoryPack; public for MessagePack's resolver.</summary>
[MessagePackObject]
[MemoryPackable]
public sealed partial class PackedQuote
{
    [Key(0)]
    public int Number { get; set; }

    [Key(1)]
    public long Time { get; set; }

    [Key(2)]
    public double Price { get; set; }

    [Key(3)]
    public string Name { get; set; } = "";
}
