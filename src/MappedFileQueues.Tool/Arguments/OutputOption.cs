using System.CommandLine;
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;

namespace MappedFileQueues.Tool.Arguments;

/// <summary>
/// `--output text|json`, of every command: what it has to say is for people, or one JSON value for programs. Errors are a line
/// each on standard error either way.
/// </summary>
internal static class OutputOption
{
    /// <summary>Belongs to the root command, and by that to all.</summary>
    public static readonly Option<string> Option = CreateOption();

    /// <summary>Whether the result is asked for as JSON.</summary>
    public static bool IsJson(ParseResult parsed) => parsed.GetRequiredValue(Option) == "json";

    /// <summary>Writes a result, and nothing else, to standard output.</summary>
    public static void WriteJson<T>(T value, JsonTypeInfo<T> type) =>
        Console.Out.WriteLine(JsonSerializer.Serialize(value, type));

    private static Option<string> CreateOption()
    {
        Option<string> option = ToolOptions.OneOf(
            "--output", "text: results to read; json: one JSON value, lengths and offsets in bytes.", "text", "json");
        option.Recursive = true;
        return option;
    }
}
