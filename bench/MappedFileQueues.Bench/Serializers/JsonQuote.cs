using System.Text.Json.Serialization;

namespace MappedFileQueues.Bench.Serializers;

/// <summary>The object of the headline table, as 1.x measured it: an int, a long, a double and a string.</summary>
internal sealed class JsonQuote
{
    public int Number { get; set; }

    public long Time { get; set; }

    public double Price { get; set; }

    public string Name { get; set; } = "";
}

/// <summary>Its source-generated reader and writer.</summary>
[JsonSerializable(typeof(JsonQuote))]
internal sealed partial class JsonQuoteContext : JsonSerializerContext;
