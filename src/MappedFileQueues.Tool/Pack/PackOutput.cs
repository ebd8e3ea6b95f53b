using System.CommandLine;
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;

namespace MappedFileQueues.Tool.Pack;

/// <summary>How a command of `mfq pack` reports its result: to a person, or to a program.</summary>
internal static class PackOutput
{
    private const string Text = "text";
    private const string Json = "json";

    /// <param name="json">What the command writes for a program.</param>
    /// <param name="text">What it writes otherwise.</param>
    public static Option<string> Option(string json, string text = "to read")
    {
        Option<string> output = new("--output")
        {
            Description = $"text: {text}; json: {json}",
            HelpName = $"{Text}|{Json}",
            DefaultValueFactory = _ => Text,
        };
        output.AcceptOnlyFromAmong(Text, Json);
        return output;
    }

    public static bool IsJson(this ParseResult parsed, Option<string> output) => parsed.GetRequiredValue(output) == Json;

    /// <summary>Writes one object on its own line.</summary>
    public static void Write<T>(T result, JsonTypeInfo<T> type) => Console.Out.WriteLine(JsonSerializer.Serialize(result, type));
}
