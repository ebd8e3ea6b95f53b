using System.Globalization;
using System.Text;

namespace MappedFileQueues.Tests.Interop;

/// <summary>The store that processes of several languages share, and its messages.</summary>
internal static class InteropStore
{
    public static MappedFileQueue Open(TempStore store, long maxUnconsumedBytes = 0) => new(new MappedFileQueueOptions
    {
        StorePath = store.StorePath,
        SegmentSize = 64 * 1024,
        Durability = DurabilityLevel.PageCache,
        MaxUnconsumedBytes = maxUnconsumedBytes,
        LockTimeout = TimeSpan.FromSeconds(2),
    });

    public static byte[] Message(int i) => Encoding.UTF8.GetBytes(Text(i));

    public static string Text(int i) => string.Create(CultureInfo.InvariantCulture, $"message {i}");
}
