using System.Text.Json;
using MemoryPack;
using MessagePack;

namespace MappedFileQueues.Tests.Queues.Serializers;

/// <summary>What serializers of objects write: members of many kinds, each of which may be null, and itself.</summary>
[MessagePackObject]
[MemoryPackable]
public sealed partial class Parcel
{
    [Key(0)]
    public int Number { get; set; }

    [Key(1)]
    public string? Text { get; set; }

    [Key(2)]
    public byte[]? Bytes { get; set; }

    [Key(3)]
    public List<string?>? Lines { get; set; }

    [Key(4)]
    public Dictionary<string, double>? Prices { get; set; }

    [Key(5)]
    public Parcel? Inner { get; set; }

    /// <summary>One whose strings and collections are so long; nothing is null in it, except at the innermost.</summary>
    public static Parcel Make(int number, int length) => new()
    {
        Number = number,
        Text = new string('ü', length),
        Bytes = [.. Enumerable.Range(number, length).Select(value => (byte)value)],
        Lines = [.. Enumerable.Range(0, length / 10).Select(line => line % 3 == 0 ? null : $"line {line}")],
        Prices = Enumerable.Range(0, length / 20).ToDictionary(key => $"instrument {key}", key => key * 0.5),
        Inner = length > 0 ? Make(number + 1, length / 2) : null,
    };

    /// <summary>Everything that it holds, to be compared.</summary>
    public override string ToString() => JsonSerializer.Serialize(this);
}
