namespace MappedFileQueues.Platform;

/// <summary>mmap(2), shared.</summary>
internal sealed unsafe class LinuxView(byte* pointer, long length, bool writable) : MappedView
{
    private nint _pointer = (nint)pointer;

    /// <inheritdoc/>
    public override byte* Pointer => (byte*)Volatile.Read(ref _pointer);

    /// <inheritdoc/>
    public override long Length => length;

    /// <inheritdoc/>
    public override void Touch(long position, long length) =>
        Populate(position, length, writable ? LinuxNative.MADV_POPULATE_WRITE : LinuxNative.MADV_POPULATE_READ);

    /// <inheritdoc/>
    public override void TouchForReading(long position, long length) =>
        Populate(position, length, LinuxNative.MADV_POPULATE_READ);

    /// <inheritdoc/>
    public override bool TryTouchForReading(long position, long length)
    {
        (long start, long end) = PagesOf(position, length);
        return end > start && Advise(start, end, LinuxNative.MADV_POPULATE_READ);
    }

    /// <inheritdoc/>
    public override void LetGoOfPages(long position, long length)
    {
        // A shared mapping's DONTNEED drops page table entries alone: stores go on into the same pages of the file.
        long page = Environment.SystemPageSize;
        long start = (Math.Clamp(position, 0, Length) + page - 1) & -page;
        long end = Math.Min(position + length, Length) & -page;
        if (end > start)
            _ = Advise(start, end, LinuxNative.MADV_DONTNEED);
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

    private void Populate(long position, long count, int advice)
    {
        (long start, long end) = PagesOf(position, count);
        if (end <= start || Advise(start, end, advice))
            return;
        int errno = LinuxErrors.Last;

        // EINVAL: a kernel before 5.14. Every other answer (no room for a hole, a device that fails) is a reason not to go there.
        if (errno == DiskErrors.EINVAL)
            PageTouch.Read(Pointer, start, end);
    }

    private (long Start, long End) PagesOf(long position, long count) =>
        (Math.Clamp(position, 0, length) & -Environment.SystemPageSize, Math.Min(position + count, length));

    private bool Advise(long start, long end, int advice) =>
        LinuxNative.madvise(Pointer + start, (nint)(end - start), advice) == 0;
}
