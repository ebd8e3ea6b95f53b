using System.Collections.Concurrent;
using System.Runtime.InteropServices;

namespace MappedFileQueues.CrashLab.Sim;

/// <summary>
/// Memory that stands still, for the content of a simulated file. Rented, because tens of thousands of images a minute would
/// otherwise be made of nothing but allocations; one that is never given back is freed by its finalizer.
/// </summary>
internal sealed unsafe class SimBuffer
{
    private static readonly ConcurrentDictionary<int, ConcurrentBag<SimBuffer>> s_free = new();

    private SimBuffer(int capacity)
    {
        Capacity = capacity;
        Pointer = (byte*)NativeMemory.AlignedAlloc((nuint)capacity, SimFile.Page);
        GC.AddMemoryPressure(capacity);
    }

    ~SimBuffer()
    {
        NativeMemory.AlignedFree(Pointer);
        GC.RemoveMemoryPressure(Capacity);
    }

    public int Capacity { get; }

    public byte* Pointer { get; }

    public Span<byte> Span => new(Pointer, Capacity);

    /// <summary>A buffer of zeros with room for so many bytes, in whole pages.</summary>
    public static SimBuffer Rent(int length)
    {
        int capacity = Math.Max(SimFile.Page, (length + SimFile.Page - 1) & -SimFile.Page);
        if (!s_free.GetOrAdd(capacity, _ => []).TryTake(out SimBuffer? buffer))
            buffer = new SimBuffer(capacity);
        buffer.Span.Clear();
        return buffer;
    }

    /// <summary>Nobody has a pointer into it any more.</summary>
    public void Return() => s_free[Capacity].Add(this);
}
