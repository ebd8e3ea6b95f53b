using System.Diagnostics;

namespace MappedFileQueues;

/// <summary>
/// The names under which users know the types, for <see cref="ObjectDisposedException.ObjectName"/>. The folders below cannot
/// refer to those types. The struct and message variants share a name.
/// </summary>
internal static class PublicNames
{
    public const string Queue = "MappedFileQueues.MappedFileQueue";
    public const string Producer = "MappedFileQueues.MappedFileProducer";
    public const string Consumer = "MappedFileQueues.MappedFileConsumer";
    public const string GroupMember = "MappedFileQueues.MappedFileGroupMember";
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
