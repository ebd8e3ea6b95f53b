using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using MappedFileQueues.Tests.Contract;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Tests.Log.Reading;

/// <summary>Which pages a reader has mapped that follows a producer.</summary>
public sealed unsafe class FollowedPagesTests
{
    private const int PageSize = 4096;

    /// <summary>
    /// What a reader found in memory after the end, it did not map: the first message of each 64 KiB waited for a page fault. In
    /// round trips of 0.25 us between two processes that was one in 910, and took 10 to 40 us.
    /// </summary>
    [Fact]
    public void TryRead_FollowsAProducer_HasTheNextPagesMapped()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The page table is read from /proc.");
        Assert.SkipUnless(Environment.SystemPageSize == PageSize, "The system maps other numbers of pages at once.");
        const int Length = 4 << 20;
        PlatformScope.Use(portable: false);
        using TempStore store = new();
        using MappedFileQueue queue = new(
            new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 2 * Length });
        queue.Producer.Prepare(Length);
        byte[] message = new byte[(PageSize / 2) - 8];
        queue.Producer.Produce(message);
        using MappedFileReader reader = MappedFileReader.Open(store.StorePath);
        Assert.True(reader.TryRead(out ReadOnlySpan<byte> first));
        byte* start = (byte*)Unsafe.AsPointer(ref MemoryMarshal.GetReference(first)) - 8;
        using SafeFileHandle pageTable = File.OpenHandle("/proc/self/pagemap");

        int faults = 0;
        for (int page = 1; page < Length / PageSize; page++)
        {
            queue.Producer.Produce(message);
            Assert.True(reader.TryRead(out _));
            queue.Producer.Produce(message);
            byte* next = start + ((long)page * PageSize);
            faults += IsMapped(pageTable, next) ? 0 : 1;
            Assert.True(reader.TryRead(out ReadOnlySpan<byte> read));
            Assert.Equal((nint)next, (nint)Unsafe.AsPointer(ref MemoryMarshal.GetReference(read)) - 8);
        }

        // Steps of 64, 128, 256, 512 and four times 1,024 KiB begin with a page that is not mapped.
        Assert.InRange(faults, 1, 10);
    }

    /// <summary>Bit 63 of an entry of proc_pid_pagemap(5).</summary>
    private static bool IsMapped(SafeFileHandle pageTable, byte* address)
    {
        Span<byte> entry = stackalloc byte[sizeof(ulong)];
        Assert.Equal(entry.Length, RandomAccess.Read(pageTable, entry, (nint)address / PageSize * entry.Length));
        return (entry[^1] & 0x80) != 0;
    }
}
