using System.Diagnostics;

namespace MappedFileQueues;

/// <summary>
/// What users know the types as, for <see cref="ObjectDisposedException.ObjectName"/>: the folders below those types cannot name
/// them. Those of structs and of messages have one name.
/// </summary>
internal static class PublicNames
{
    public const string Queue = "MappedFileQueues.MappedFileQueue";
    public const string Producer = "MappedFileQueues.MappedFileProducer";
    public const string Consumer = "MappedFileQueues.MappedFileConsumer";
    public const string Reader = "MappedFileQueues.MappedFileReader";

    [StackTraceHidden]
    public static void ThrowIfDisposed(bool isDisposed, string name)
    {
        if (isDisposed)
            Throw(name);
    }

    [StackTraceHidden]
    private static void Throw(string name) => throw new ObjectDisposedException(name);
}
