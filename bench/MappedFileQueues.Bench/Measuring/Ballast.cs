using System.Runtime.InteropServices;

namespace MappedFileQueues.Bench.Measuring;

/// <summary>
/// Memory that the host of a virtual machine took back is slow on its first touch, ten times as slow as any later one, and that
/// is nobody's: memory that was used and freed just before is what the next file gets. The host takes it again within seconds, so
/// this comes before each measurement, not once. Not by a file that is written and deleted: what it leaves behind is in small
/// pieces, and the disk is busy with it meanwhile (peers of one kind then differed by 2, instead of by 1.2).
/// </summary>
internal static unsafe partial class Ballast
{
    private const int PageLength = 4096;
    private const int LargePageLength = 2 * 1024 * 1024;
    private const int AdviseLargePages = 14;

    /// <summary>Uses and frees a quarter more than <paramref name="length"/> bytes, but half of the memory at most.</summary>
    public static void Take(long length)
    {
        long count = Math.Min(length / 4 * 5, GC.GetGCMemoryInfo().TotalAvailableMemoryBytes / 2);
        byte* start = (byte*)NativeMemory.AlignedAlloc((nuint)count, LargePageLength);
        if (OperatingSystem.IsLinux())
            _ = Advise(start, (nint)count, AdviseLargePages);
        for (long position = 0; position < count; position += PageLength)
            Volatile.Write(ref start[position], 1);
        NativeMemory.AlignedFree(start);
    }

    [LibraryImport("libc", EntryPoint = "madvise")]
    private static partial int Advise(byte* address, nint length, int advice);
}
