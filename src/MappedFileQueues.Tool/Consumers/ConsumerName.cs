namespace MappedFileQueues.Tool.Consumers;

/// <summary>
/// Names of consumers on the command line. The default consumer has an empty name, which nobody can read in a table. It is shown
/// as <see cref="Default"/>, and each command takes that for it. No other consumer can have this name.
/// </summary>
internal static class ConsumerName
{
    /// <summary>How the default consumer is shown and given. A shell needs quotes around it.</summary>
    public const string Default = "(default)";

    /// <summary>For the help of what takes a name.</summary>
    public const string Help = $"\"{Default}\" or \"\" is the default one";

    private const string Expected = $"a consumer's name, {StoreNames.NameRule}";

    /// <summary>A consumer's name as it is shown to a person.</summary>
    public static string Show(string name) => name.Length == 0 ? Default : name;

    /// <summary>The name in brackets, for the end of a phrase.</summary>
    public static string InBrackets(string name) => name.Length == 0 ? Default : $"({name})";

    /// <summary>The consumer of that name; null if there is none.</summary>
    public static MappedFileConsumerInfo? Find(MappedFileQueueInfo info, string name) =>
        info.Consumers.FirstOrDefault(consumer => consumer.Name.Equals(name, StringComparison.OrdinalIgnoreCase));

    /// <summary>An option that takes a name.</summary>
    public static Option<string?> Option(string name, string description) =>
        ToolOptions.Value(name, description, "NAME", Expected, Parse)!;

    /// <summary>An option that takes a consumer's or a group's name and may be repeated.</summary>
    public static Option<string[]> FollowersOption(string name, string description) =>
        ToolOptions.Values(name, description, "NAME", $"{Expected}, or group/ and a group's name", LogFollower.Parse);

    /// <summary>An argument that is a name.</summary>
    public static Argument<string> Argument(string name, string description) =>
        ToolOptions.ValueArgument(name, description, Expected, Parse);

    /// <summary>What may be a name, as it is stored; null for something else.</summary>
    public static string? Parse(string given)
    {
        string name = given == Default ? "" : given;
        return StoreNames.IsValidConsumer(name) ? name : null;
    }
}
