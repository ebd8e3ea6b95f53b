using MappedFileQueues.Format;

namespace MappedFileQueues.Log.Frames;

/// <summary>How long a batch is in the log: one frame a message, one behind the other.</summary>
internal static class BatchLayout
{
    public static long Length(ReadOnlySpan<ReadOnlyMemory<byte>> messages)
    {
        long total = 0;
        foreach (ReadOnlyMemory<byte> message in messages)
            total += FrameHeader.FrameLength(message.Length);
        return total;
    }
}
