namespace MappedFileQueues.Platform;

/// <summary>
/// A mapping. Only its owner (Memory/MappedRegion) disposes it. Nothing here has a finalizer, so a view that is never disposed
/// stays mapped.
/// </summary>
internal abstract unsafe class MappedView : IDisposable
{
    /// <summary>The first byte.</summary>
    public abstract byte* Pointer { get; }

    /// <summary>The mapped length in bytes.</summary>
    public abstract long Length { get; }

    /// <summary>
    /// Makes the pages of an allocated range present and writable, so that later stores meet no page fault (MADV_POPULATE_WRITE
    /// where it is known, and a read of one byte per page). A hint; never fails.
    /// </summary>
    public abstract void Touch(long position, long length);

    /// <summary>
    /// True if the system knows whether accessing a page would end the process. Otherwise (before Linux 5.14, and on Portable)
    /// the Try… methods return false for what they do not know.
    /// </summary>
    public virtual bool TellsWhatIsThere => false;

    /// <summary>
    /// Brings a range in and returns whether all of it is there. False where it is beyond the end of the file or the disk
    /// cannot deliver it, so that an access would end the process; and where the system cannot tell
    /// (<see cref="TellsWhatIsThere"/>).
    /// </summary>
    public virtual bool TryTouchForReading(long position, long length) => false;

    /// <summary>
    /// The same for a range that will be written: its pages are dirty afterwards. False also where the disk has no room for a
    /// hole, or takes no more writes.
    /// </summary>
    public virtual bool TryTouchForWriting(long position, long length) => false;

    /// <summary>
    /// The end of what is in the page cache without a gap from a position on; the position itself when its page is not in the
    /// cache, or when the system does not tell this user.
    /// </summary>
    public virtual long CachedTo(long position, long end) => position;

    /// <summary>
    /// Like <see cref="TryTouchForReading"/>, but only a query where the range is in the page cache and the system tells this
    /// user so (0.6 us/MiB instead of 27: mincore(2) beside MADV_POPULATE_READ, Linux 6.18). The next access maps the pages.
    /// </summary>
    public virtual bool TryTouchCached(long position, long length) => TryTouchForReading(position, length);

    /// <summary>
    /// Makes a missing page of the range bring no others along. By default the system takes larger and larger pieces when a file
    /// is touched in order (2 MiB with Linux 6.18 and ext4). That is quick, but a store into one byte of a mapped piece makes the
    /// next flush write all of it. Portable: nothing. A hint; never fails.
    /// </summary>
    public virtual void StopReadAhead(long position, long length)
    {
    }

    /// <summary>
    /// Takes the whole pages of the range out of this mapping; their contents stay, and the next access brings them back. The
    /// kernel interrupts all processors of this process once for the range, while cleaning mapped pages costs one interrupt each.
    /// Portable: nothing. A hint; never fails.
    /// </summary>
    public virtual void LetGoOfPages(long position, long length)
    {
    }

    /// <summary>Unmaps.</summary>
    public abstract void Dispose();

    /// <summary>Brings pages in by reading one byte of each.</summary>
    protected static void ReadPages(byte* view, long start, long end)
    {
        for (long position = start; position < end; position += Environment.SystemPageSize)
            _ = Volatile.Read(ref view[position]);
    }
}
