using MappedFileQueues.Format;

namespace MappedFileQueues.Log.Frames;

/// <summary>The length of a batch in the log: one frame per message, without gaps.</summary>
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
