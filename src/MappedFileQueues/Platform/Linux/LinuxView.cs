using MappedFileQueues.Platform.Linux.Calls;

namespace MappedFileQueues.Platform.Linux;

/// <summary>mmap(2), shared.</summary>
internal sealed unsafe class LinuxView(byte* pointer, long length, bool writable) : MappedView
{
    /// <summary>Since Linux 5.14. A call for no pages at all only tells whether the system knows the advice.</summary>
    private static readonly bool s_populates = LinuxNative.madvise(null, 0, LinuxNative.MADV_POPULATE_READ) == 0;

    private nint _pointer = (nint)pointer;

    /// <summary>
    /// True if mincore(2) reports for this file what is in the page cache. To a user that neither owns the file nor may write to
    /// it, the system reports that everything is (mm/mincore.c, can_do_mincore), even pages that no file can have there.
    /// </summary>
    private bool _tellsWhatIsCached;

    /// <summary>
    /// The range of which all pages were mapped last. Hints: threads may mix theirs up, and the system may take pages out of a
    /// mapping. A wrong one costs a page fault.
    /// </summary>
    private long _mappedFrom;
    private long _mappedTo;

    /// <inheritdoc/>
    public override byte* Pointer => (byte*)Volatile.Read(ref _pointer);

    /// <inheritdoc/>
    public override long Length => length;

    /// <summary>Maps a range, whatever the file's length is; null with the errno when the system refuses.</summary>
    public static LinuxView? TryMap(LinuxHandle file, long position, long length, bool writable, out int errno)
    {
        int protection = LinuxNative.PROT_READ | (writable ? LinuxNative.PROT_WRITE : 0);
        nint address = LinuxNative.mmap(0, (nint)length, protection, LinuxNative.MAP_SHARED, file, position);
        errno = LinuxErrors.Last;
        return address == -1 ? null : new LinuxView((byte*)address, length, writable);
    }

    /// <summary>Finds out whether mincore(2) tells this user the truth, with a page far beyond the end of the file.</summary>
    public void AskForCached(LinuxHandle file, long fileLength)
    {
        const long Far = 1L << 30;
        long page = Environment.SystemPageSize;
        using LinuxView? beyond = TryMap(file, (fileLength + Far) & -page, page, writable: false, out _);
        _tellsWhatIsCached = beyond?.FirstNotCached(0, page) == 0;
    }

    /// <inheritdoc/>
    /// <remarks>
    /// The read afterwards is for a hypervisor that shadows the page tables (PVM): it fills its own at the first access alone,
    /// which then costs 4 us a page (a message of 64 bytes 75 ns instead of 10; measured).
    /// </remarks>
    public override void Touch(long position, long length)
    {
        (long start, long end) = PagesOf(position, length);
        int advice = writable ? LinuxNative.MADV_POPULATE_WRITE : LinuxNative.MADV_POPULATE_READ;
        // EINVAL: a kernel before 5.14. Every other error (no room for a hole, a device that fails) is a reason not to access the
        // page.
        if (end > start && (Advise(start, end, advice) || LinuxErrors.Last == DiskErrors.EINVAL))
        {
            ReadPages(Pointer, start, end);
            NoteMapped(start, end);
        }
    }

    /// <inheritdoc/>
    public override bool TellsWhatIsThere => s_populates;

    /// <inheritdoc/>
    public override bool TryTouchForReading(long position, long length)
    {
        (long start, long end) = PagesOf(position, length);
        return end > start && Advise(start, end, LinuxNative.MADV_POPULATE_READ);
    }

    /// <inheritdoc/>
    public override bool TryTouchForWriting(long position, long length)
    {
        (long start, long end) = PagesOf(position, length);
        return end > start && Advise(start, end, LinuxNative.MADV_POPULATE_WRITE);
    }

    /// <inheritdoc/>
    public override bool TryTouchCached(long position, long length)
    {
        (long start, long end) = PagesOf(position, length);
        bool isOnePage = end - start <= Environment.SystemPageSize;
        bool isAsked = _tellsWhatIsCached && !(isOnePage && s_populates);
        if (isAsked && s_populates && !IsMapped(start, end))
            MapAround(start, end);
        return (isAsked && FirstNotCached(start, end) >= end) || TryTouchForReading(position, length);
    }

    /// <inheritdoc/>
    public override long CachedTo(long position, long end)
    {
        if (!_tellsWhatIsCached)
            return position;
        (long start, long last) = PagesOf(position, end - position);
        return Math.Clamp(FirstNotCached(start, last), position, end);
    }

    /// <inheritdoc/>
    public override void LetGoOfPages(long position, long length)
    {
        // In a shared mapping DONTNEED drops only page table entries: stores continue into the same pages of the file.
        long page = Environment.SystemPageSize;
        long start = (Math.Clamp(position, 0, Length) + page - 1) & -page;
        long end = Math.Min(position + length, Length) & -page;
        if (end <= start)
            return;
        _ = Advise(start, end, LinuxNative.MADV_DONTNEED);
        Volatile.Write(ref _mappedTo, 0); // P23 relaxed: a hint.
    }

    /// <inheritdoc/>
    public override void StopReadAhead(long position, long length)
    {
        (long start, long end) = PagesOf(position, length);
        _ = Advise(start, end, LinuxNative.MADV_RANDOM);
    }

    /// <inheritdoc/>
    public override void Dispose()
    {
        nint mapped = Interlocked.Exchange(ref _pointer, 0);
        if (mapped != 0)
            _ = LinuxNative.munmap((byte*)mapped, (nint)length);
    }

    /// <summary>
    /// Touches one page of each 64 KiB, with which the system maps those around it that are in the page cache
    /// (mm/memory.c, fault_around_bytes). Measured a page of 4 KiB: 205 ns for a query of the page cache and a fault at the
    /// access, 200 ns where each page is touched so, 140 ns for this and the query. Not where the last page is not there: what
    /// touches all pages has the system read ahead from the disk, and this has not.
    /// </summary>
    private void MapAround(long start, long end)
    {
        const long Around = 64 * 1024;
        if (FirstNotCached((end - 1) & -Environment.SystemPageSize, end) < end)
            return;
        long next = start;
        while (next < end && Advise(next, next + 1, LinuxNative.MADV_POPULATE_READ))
            next = (next + Around) & -Around;
        if (next >= end)
            NoteMapped(start, end);
    }

    // P23 relaxed: hints.
    private bool IsMapped(long start, long end) => start >= Volatile.Read(ref _mappedFrom) && end <= Volatile.Read(ref _mappedTo);

    private void NoteMapped(long start, long end)
    {
        // P23 relaxed: hints.
        (long from, long to) = (Volatile.Read(ref _mappedFrom), Volatile.Read(ref _mappedTo));
        bool isApart = start > to || end < from;
        Volatile.Write(ref _mappedFrom, isApart ? start : Math.Min(start, from)); // P23 relaxed: as above.
        Volatile.Write(ref _mappedTo, isApart ? end : Math.Max(end, to)); // P23 relaxed: as above.
    }

    /// <summary>
    /// The first page of the range that an access would not find in the page cache (mincore(2)); otherwise the range's end.
    /// </summary>
    private long FirstNotCached(long start, long end)
    {
        const int PagesMax = 1024;
        long page = Environment.SystemPageSize;
        byte* pages = stackalloc byte[PagesMax];
        for (long next = start; next < end; next += PagesMax * page)
        {
            nint count = (nint)Math.Min(PagesMax * page, end - next);
            if (LinuxNative.mincore(Pointer + next, count, pages) != 0)
                return next;
            for (long i = 0; i * page < count; i++)
            {
                // The other bits are reserved.
                if ((pages[i] & 1) == 0)
                    return next + (i * page);
            }
        }

        return end;
    }

    private (long Start, long End) PagesOf(long position, long count) =>
        (Math.Clamp(position, 0, length) & -Environment.SystemPageSize, Math.Min(position + count, length));

    private bool Advise(long start, long end, int advice) =>
        LinuxNative.madvise(Pointer + start, (nint)(end - start), advice) == 0;
}
