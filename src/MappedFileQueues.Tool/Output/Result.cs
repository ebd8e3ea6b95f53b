using System.Text.Json;
using System.Text.Json.Nodes;
using System.Text.Json.Serialization.Metadata;

namespace MappedFileQueues.Tool.Output;

/// <summary>
/// Writes the result of a command to standard output: text for people, or, with `--output json`, one JSON object and nothing
/// else. Lists are members of one.
/// </summary>
internal static class Result
{
    /// <summary>
    /// The version of all JSON values, their first member. It is raised when a member goes or means something else. A new member
    /// does not raise it.
    /// </summary>
    private const int SchemaVersion = 1;

    /// <summary>Writes the result as JSON, or prints it; returns the exit code.</summary>
    public static int Write<T>(
        ParseResult parsed, T value, JsonTypeInfo<T> type, Action<T> print, int exitCode = ExitCodes.Success)
    {
        if (OutputOption.IsJson(parsed))
            WriteJson(value, type);
        else
            print(value);
        return exitCode;
    }

    /// <summary>Writes the result as JSON, or the text that says the same; returns the exit code.</summary>
    public static int Write<T>(
        ParseResult parsed, T value, JsonTypeInfo<T> type, string text, int exitCode = ExitCodes.Success) =>
        Write(parsed, value, type, _ => OutputLine.Write(text), exitCode);

    public static void WriteJson<T>(T value, JsonTypeInfo<T> type)
    {
        JsonObject result = JsonSerializer.SerializeToNode(value, type)!.AsObject();
        result.Insert(0, "version", SchemaVersion);
        ToolConsole.Out.WriteLine(result.ToJsonString(type.Options));
    }
}
