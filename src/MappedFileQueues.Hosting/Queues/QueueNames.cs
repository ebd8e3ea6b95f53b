namespace MappedFileQueues.Hosting.Queues;

/// <summary>Names of queues and consumers in an application, and where configuration has them.</summary>
internal static class QueueNames
{
    public const string Section = "MappedFileQueues";

    public const string HealthKey = "Health";

    public const string ConsumerKey = "Consumer";

    public const string ConsumersKey = "Consumers";

    private const int LengthMax = 100;

    public static string PathOf(string queue) => $"{Section}:{queue}";

    public static string HealthPathOf(string queue) => $"{Section}:{queue}:{HealthKey}";

    public static string ConsumerPathOf(string queue, string consumer) =>
        consumer.Length == 0 ? $"{Section}:{queue}:{ConsumerKey}" : $"{Section}:{queue}:{ConsumersKey}:{consumer}";

    /// <summary>The name of a consumer's options.</summary>
    public static string KeyOf(string queue, string consumer) => $"{queue}/{consumer}";

    /// <summary>A queue's name is part of a configuration path, a consumer's of a file name.</summary>
    public static void ThrowIfInvalid(string name, bool mayBeEmpty = false)
    {
        ArgumentNullException.ThrowIfNull(name);
        bool isValid = (mayBeEmpty || name.Length > 0) && name.Length <= LengthMax
            && name.All(character => char.IsAsciiLetterOrDigit(character) || character is '.' or '_' or '-');
        if (!isValid)
            throw new ArgumentException(
                $"A name has 1 to {LengthMax} characters of A-Z a-z 0-9 . _ -: name=\"{name}\".", nameof(name));
    }
}
