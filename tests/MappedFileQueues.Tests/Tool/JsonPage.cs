using System.Text.Json;
using System.Text.RegularExpressions;

namespace MappedFileQueues.Tests.Tool;

/// <summary>docs/JSON.md as a list of the members of each command's output, against which real output is held.</summary>
internal static partial class JsonPage
{
    private static readonly Dictionary<string, Member[]> s_tables = Parse();

    /// <summary>The commands that the page lists.</summary>
    public static IEnumerable<string> Commands => s_tables.Keys.Where(name => name.StartsWith("mfq ", StringComparison.Ordinal));

    /// <summary>The objects that the page lists beside them.</summary>
    public static IEnumerable<string> Objects => s_tables.Keys.Where(name => !name.StartsWith("mfq ", StringComparison.Ordinal));

    /// <summary>Holds one value, which a command has written, against the page.</summary>
    /// <param name="command">The command without `mfq`.</param>
    /// <param name="json">What it wrote.</param>
    /// <param name="seen">Takes the names of the objects that were in it; null: nobody asks.</param>
    /// <param name="hasVersion">False for the lines of messages.</param>
    public static void Check(string command, string json, ISet<string>? seen = null, bool hasVersion = true)
    {
        JsonElement value = JsonElement.Parse(json);
        Assert.Equal(JsonValueKind.Object, value.ValueKind);
        JsonProperty[] members = [.. value.EnumerateObject()];
        if (hasVersion)
        {
            Assert.Equal("version", members[0].Name);
            Assert.Equal(1, members[0].Value.GetInt32());
        }

        Check($"mfq {command}", members[(hasVersion ? 1 : 0)..], seen);
    }

    private static void Check(string name, JsonProperty[] members, ISet<string>? seen)
    {
        seen?.Add(name);
        Assert.True(s_tables.TryGetValue(name, out Member[]? table), $"docs/JSON.md does not list {name}");
        foreach (JsonProperty member in members)
        {
            Member? row = table.FirstOrDefault(row => row.Name == member.Name);
            Assert.True(row is not null, $"docs/JSON.md does not list {member.Name} of {name}");
            Check($"{name}.{member.Name}", row.Type, member.Value, seen);
        }

        Assert.Empty(table.Where(row => !row.IsOptional).Select(row => row.Name).Except(members.Select(member => member.Name)));
    }

    private static void Check(string place, string type, JsonElement value, ISet<string>? seen)
    {
        const string OrNull = " or null";
        const string ListOf = "list of ";
        if (type.EndsWith(OrNull, StringComparison.Ordinal))
        {
            if (value.ValueKind == JsonValueKind.Null)
                return;
            type = type[..^OrNull.Length];
        }

        if (type.StartsWith(ListOf, StringComparison.Ordinal))
        {
            Assert.True(value.ValueKind == JsonValueKind.Array, $"{place} is {value.ValueKind}, not a list");
            foreach (JsonElement one in value.EnumerateArray())
                Check(place, type[ListOf.Length..], one, seen);
            return;
        }

        bool isRight = (type, value.ValueKind) switch
        {
            ("number", JsonValueKind.Number) or ("string", JsonValueKind.String) => true,
            ("boolean", JsonValueKind.True or JsonValueKind.False) => true,
            ("number" or "string" or "boolean", _) => false,
            _ => value.ValueKind == JsonValueKind.Object,
        };
        Assert.True(isRight, $"{place} is {value.ValueKind}, not {type}");
        if (value.ValueKind == JsonValueKind.Object)
            Check(type == "verification" ? "mfq verify" : type, [.. value.EnumerateObject()], seen);
    }

    private static Dictionary<string, Member[]> Parse()
    {
        Dictionary<string, Member[]> tables = [];
        foreach (string section in Heading().Split(File.ReadAllText(Repository.PathOf("docs/JSON.md")))[1..])
        {
            string[] lines = section.Split('\n');
            Member[] members =
            [
                .. lines.Select(line => Row().Match(line)).Where(row => row.Success).Select(row => new Member(
                    row.Groups[1].Value, row.Groups[2].Value, row.Groups[3].Success)),
            ];
            Assert.NotEmpty(members);
            foreach (string name in lines[0].Split(", "))
                tables.Add(name, members);
        }

        return tables;
    }

    [GeneratedRegex("^##+ ", RegexOptions.Multiline)]
    private static partial Regex Heading();

    [GeneratedRegex(@"^- `(\w+)` \(([a-z -]+)(, optional)?\): ")]
    private static partial Regex Row();

    private sealed record Member(string Name, string Type, bool IsOptional);
}
