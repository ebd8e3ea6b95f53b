namespace MappedFileQueues.Platform;

/// <summary>An open file. Errors of the system are <see cref="QueueDiskException"/> with errno and path.</summary>
internal abstract class PlatformFile : IDisposable
{
    /// <summary>The full path, for messages.</summary>
    public abstract string Path { get; }

    /// <summary>The file was renamed: messages name it by this path from now on.</summary>
    public virtual void NoteName(string newPath)
    {
    }

    /// <summary>The length in bytes, read anew each time.</summary>
    public abstract long Length { get; }

    /// <summary>Blocks on disk in bytes (st_blocks × 512); Portable: <see cref="Length"/>.</summary>
    public abstract long AllocatedLength { get; }

    /// <summary>Identifies this file; Portable: always the same value.</summary>
    public abstract FileIdentity Identity { get; }

    /// <summary>
    /// The creation time of the file, in UTC; null where it is unknown (some file systems; Portable on Unix, where the BCL gives
    /// the last change instead).
    /// </summary>
    public virtual DateTimeOffset? Birth => null;

    /// <summary>
    /// When the file was last written to, as the file system tells it. It notices a store into a mapped page only when the page
    /// was clean before; <see cref="NoteWritten"/> says so.
    /// </summary>
    public abstract DateTimeOffset LastWritten { get; }

    /// <summary>Sets <see cref="LastWritten"/> to now. A hint: an error is not reported.</summary>
    public virtual void NoteWritten()
    {
    }

    /// <summary>True if the file may have other names (hard links) than the one it was opened by; Portable: false.</summary>
    public virtual bool HasOtherNames => false;

    /// <summary>True if the file was removed, and lives on only in those who have it open; Portable: false.</summary>
    public virtual bool HasNoName => false;

    /// <summary>
    /// Takes the file for this open alone, whatever name others open it by, without waiting; false when another open has done so.
    /// This affects only opens that ask: other readers and writers are not kept away. Held until this is disposed or the process
    /// ends. Where the system has no such lock, and on Portable, it is always true.
    /// </summary>
    public virtual bool TryTakeAlone() => true;

    /// <summary>
    /// Whether <see cref="TryTakeAlone"/> has really taken it. A caller that would destroy data beside another one must ask.
    /// </summary>
    public virtual bool IsTakenAlone => true;

    /// <summary>Ends what <see cref="TryTakeAlone"/> began.</summary>
    public virtual void EndAlone()
    {
    }

    /// <summary>
    /// Marks the file as in use through this open (flock(2), shared), without waiting. The mark stays while this open or a
    /// mapping made from it exists, after <see cref="Dispose"/> too, or until <see cref="EndUse"/>. False while another open has
    /// the file by <see cref="TryTakeUnused"/>. Portable: always true; the BCL marks each file that it opens.
    /// </summary>
    public virtual bool TryUse() => true;

    /// <summary>
    /// Takes the file exclusively (flock(2)), without waiting; false while any other open of it, in any process, is marked by
    /// <see cref="TryUse"/>. Until <see cref="EndUse"/> or <see cref="Dispose"/>. Portable: always false.
    /// </summary>
    public virtual bool TryTakeUnused() => false;

    /// <summary>Ends what <see cref="TryUse"/> or <see cref="TryTakeUnused"/> began.</summary>
    public virtual void EndUse()
    {
    }

    /// <summary>Sets the length; the added part reads as zeros and has no blocks.</summary>
    public abstract void SetLength(long length);

    /// <summary>
    /// Gives the range blocks of zeros in one step of the system, inside the file's length, without changing what is written
    /// there. This is safe beside others that do the same or that store into the range. False where there is no such step
    /// (Portable; on Linux a file system without fallocate, for example ext2): then nothing was changed. On a full disk a
    /// <see cref="QueueDiskException"/> with errno 28 (ENOSPC), the file's length unchanged.
    /// </summary>
    public abstract bool TryAllocate(long offset, long length);

    /// <summary>
    /// Like <see cref="TryAllocate"/>; where there is no such step it finds what reads as zeros and writes zeros there. The
    /// caller promises that nothing stores into the range meanwhile, except into parts that a finished call of this object
    /// covered: a store between the read and the write would be lost. So this is for files that have no other user yet.
    /// Idempotent.
    /// </summary>
    public abstract void Allocate(long offset, long length);

    /// <summary>
    /// Gives the file blocks for a range that may be beyond its end, in one step; its length stays. False where there is no such
    /// step (Portable; a file system without fallocate): then nothing was changed. On a full disk as <see cref="TryAllocate"/>.
    /// </summary>
    public virtual bool TryReserve(long offset, long length) => false;

    /// <summary>
    /// Makes the range zeros without writing them (blocks marked as never written), and the file long enough to hold it. False
    /// where there is no such step (Portable; tmpfs). On a full disk as <see cref="TryAllocate"/>, but the length may have grown.
    /// </summary>
    public virtual bool TryZeroRange(long offset, long length) => false;

    /// <summary>
    /// The first position at or after an offset that may hold anything but zeros; <see cref="long.MaxValue"/> when there is none.
    /// It also finds data that was stored through a mapping and is not written yet. Portable: the offset itself.
    /// </summary>
    public virtual long FindData(long offset) => offset;

    /// <summary>Reads at a position without the mapping; fewer bytes only at the end of the file.</summary>
    public abstract int ReadAt(Span<byte> destination, long position);

    /// <summary>Writes all bytes at a position.</summary>
    public abstract void WriteAt(ReadOnlySpan<byte> source, long position);

    /// <summary>
    /// Makes this empty file a copy of another one that shares its blocks until one of the two changes them. False where the file
    /// system cannot do that, and on Portable: then nothing was changed. The caller syncs this file.
    /// </summary>
    public virtual bool TryClone(PlatformFile source) => false;

    /// <summary>
    /// Copies [<paramref name="from"/>, <paramref name="end"/>) to the beginning of an empty file. Stretches of zeros are left
    /// out and become holes. Ends early where this file does.
    /// </summary>
    public void CopyNonZero(PlatformFile copy, long from, long end)
    {
        const int PieceMax = 1 << 20;
        byte[] buffer = new byte[Math.Min(PieceMax, end - from)];
        for (long position = from; position < end;)
        {
            int read = ReadAt(buffer.AsSpan(0, (int)Math.Min(buffer.Length, end - position)), position);
            if (read == 0)
                break;
            ReadOnlySpan<byte> bytes = buffer.AsSpan(0, read);
            if (bytes.ContainsAnyExcept((byte)0))
                copy.WriteAt(bytes, position - from);
            position += read;
        }
    }

    /// <summary>
    /// Makes the data, and the metadata needed to find it, survive a power loss (fdatasync; Portable msync or FlushToDisk). EINTR
    /// is retried; any other error is thrown, once. A file system that takes no more writes is an error too: it may have lost
    /// what was stored before.
    /// </summary>
    public abstract void FlushData();

    /// <summary>Like the other overload, for a caller that has to tell others of an error before anything else happens.</summary>
    /// <param name="failed">Called when the system has reported an error; before the exception is created, where that is possible
    /// (Portable gets a finished one from the BCL). It must not throw.</param>
    public virtual void FlushData(Action? failed)
    {
        try
        {
            FlushData();
        }
        catch (QueueDiskException)
        {
            failed?.Invoke();
            throw;
        }
    }

    /// <summary>
    /// Asks the system to begin writing a range to the disk, and waits for nothing (sync_file_range; Portable: nothing). It
    /// promises nothing and takes no error from a later <see cref="FlushData()"/>. A hint; never fails.
    /// </summary>
    public virtual void StartWriteBack(long offset, long length)
    {
    }

    /// <summary>
    /// Waits until what <see cref="StartWriteBack"/> began is written (sync_file_range; Portable: nothing). An error is told
    /// here, and to no file that is opened from now on: use a descriptor of its own.
    /// </summary>
    /// <param name="offset">Where the range begins.</param>
    /// <param name="length">How long it is.</param>
    /// <param name="failed">As for <see cref="FlushData(Action)"/>.</param>
    /// <exception cref="QueueDiskException">The disk has failed: data may be lost.</exception>
    public virtual void AwaitWriteBack(long offset, long length, Action? failed)
    {
    }

    /// <summary>Asks the system to begin reading this part, and does not wait. A hint; never fails.</summary>
    public virtual void AdviseWillNeed(long offset, long length)
    {
    }

    /// <summary>
    /// Brings a range that is not in the page cache there in single pages; see <see cref="MappedView.StopReadAhead"/>. Portable:
    /// nothing. A hint; never fails.
    /// </summary>
    public virtual void CacheSinglePages(long offset, long length)
    {
    }

    /// <summary>Like <see cref="FlushData()"/>, but its error says that data may be lost.</summary>
    /// <param name="failed">As for <see cref="FlushData(Action)"/>.</param>
    public void Sync(Action? failed = null)
    {
        try
        {
            FlushData(failed);
        }
        catch (QueueDiskException error)
        {
            throw new QueueDiskException(error.Message, error.Errno, error.Path, error) { MayHaveLostData = true };
        }
    }

    /// <summary>
    /// Maps [0, <paramref name="length"/>) shared; a shorter file is a <see cref="QueueCorruptException"/>. The view outlives
    /// this object.
    /// </summary>
    public abstract MappedView Map(long length, bool writable);

    /// <summary>
    /// Maps [0, <paramref name="length"/>) for random reads, whatever the file's length is; growth of the file becomes visible.
    /// An access beyond the file's end ends the process. Null on Portable, where nothing tells whether an access is safe.
    /// </summary>
    public virtual MappedView? MapAhead(long length) => null;

    /// <summary>True if reading a hole through a mapping gives it a block, and fails on a full disk, as on tmpfs.</summary>
    public virtual bool LooksFillHoles => false;

    /// <summary>Closes the file; views stay.</summary>
    public abstract void Dispose();
}
