namespace MappedFileQueues.Platform;

/// <summary>Brings pages in by reading them, where the system has no call for it.</summary>
internal static unsafe class PageTouch
{
    /// <summary>Reads one byte of each page in [start, end).</summary>
    public static void Read(byte* view, long start, long end)
    {
        for (long position = start; position < end; position += Environment.SystemPageSize)
            _ = Volatile.Read(ref view[position]);
    }
}
