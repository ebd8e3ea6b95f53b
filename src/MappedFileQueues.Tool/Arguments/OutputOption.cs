using System.CommandLine;
using System.Text.Json;
using System.Text.Json.Nodes;
using System.Text.Json.Serialization.Metadata;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Arguments;

/// <summary>
/// `--output text|json`, an option of every command: the result is text for people, or one JSON value for programs. Either way
/// each error is one line on standard error.
/// </summary>
internal static class OutputOption
{
    /// <summary>
    /// The version of all JSON values, their first member. It is raised when a member goes or means something else. A new member
    /// does not raise it.
    /// </summary>
    private const int SchemaVersion = 1;

    /// <summary>The option of the root command, which all commands inherit.</summary>
    public static readonly Option<string> Option = CreateOption();

    /// <summary>True if the result is wanted as JSON.</summary>
    public static bool IsJson(ParseResult parsed) => parsed.GetRequiredValue(Option) == "json";

    /// <summary>Writes a result, and nothing else, to standard output.</summary>
    /// <param name="value">A result that is a JSON object; lists are members of one.</param>
    /// <param name="type">Its serializer.</param>
    public static void WriteJson<T>(T value, JsonTypeInfo<T> type)
    {
        JsonObject result = JsonSerializer.SerializeToNode(value, type)!.AsObject();
        result.Insert(0, "version", SchemaVersion);
        ToolConsole.Out.WriteLine(result.ToJsonString(type.Options));
    }

    private static Option<string> CreateOption()
    {
        Option<string> option = ToolOptions.OneOf(
            "--output", "text: results to read; json: one JSON value, lengths and offsets in bytes.", "text", "json");
        option.Recursive = true;
        return option;
    }
}
