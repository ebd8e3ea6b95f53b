using MappedFileQueues.Format;

namespace MappedFileQueues.Hosting.Queues;

/// <summary>Names of queues and consumers in an application, and where configuration has them.</summary>
internal static class QueueNames
{
    public const string Section = "MappedFileQueues";

    public const string HealthKey = "Health";

    public const string ConsumerKey = "Consumer";

    public const string ConsumersKey = "Consumers";

    public static string PathOf(string queue) => $"{Section}:{queue}";

    public static string HealthPathOf(string queue) => $"{Section}:{queue}:{HealthKey}";

    public static string ConsumerPathOf(string queue, string consumer) =>
        consumer.Length == 0 ? $"{Section}:{queue}:{ConsumerKey}" : $"{Section}:{queue}:{ConsumersKey}:{consumer}";

    /// <summary>How the log, health and metrics call a group: no consumer has such a name.</summary>
    public static string NameOfGroup(string group) => $"group/{group.ToLowerInvariant()}";

    /// <summary>The name of a consumer's options.</summary>
    public static string KeyOf(string queue, string consumer) => $"{queue}/{consumer}";

    /// <summary>
    /// The core's rule for names. A queue's name is part of a configuration path, and often of a directory's name; that of a
    /// consumer or a group is part of a file name.
    /// </summary>
    public static bool IsValid(string name) => name.Length > 0 && StoreNames.IsValidConsumer(name);

    /// <inheritdoc cref="IsValid"/>
    public static void ThrowIfInvalid(string name, bool mayBeEmpty = false)
    {
        ArgumentNullException.ThrowIfNull(name);
        if (!IsValid(name) && !(mayBeEmpty && name.Length == 0))
            throw new ArgumentException(
                $"A name is {(mayBeEmpty ? "" : "not empty, and ")}{StoreNames.NameRule}: name=\"{name}\".", nameof(name));
    }
}
