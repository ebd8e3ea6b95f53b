using System.IO.MemoryMappedFiles;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Platform.Portable;

/// <summary>A file by the BCL.</summary>
/// <param name="path">For messages.</param>
/// <param name="handle">The open file.</param>
/// <param name="isWritable">True if it was opened for writing.</param>
internal sealed class PortableFile(string path, SafeFileHandle handle, bool isWritable) : PlatformFile
{
    private readonly Lock _allocating = new();

    // The range that this object has allocated, in one piece: calls come in ascending order, each at the end of the one before.
    private long _allocatedFrom;
    private long _allocatedTo;

    /// <inheritdoc/>
    public override string Path => path;

    /// <inheritdoc/>
    public override void NoteName(string newPath) => path = newPath;

    /// <inheritdoc/>
    public override long Length => Try("Cannot ask for the length of the file", () => RandomAccess.GetLength(handle));

    /// <inheritdoc/>
    public override long AllocatedLength => Length;

    /// <inheritdoc/>
    public override FileIdentity Identity => default;

    /// <inheritdoc/>
    public override DateTimeOffset? Birth => OperatingSystem.IsLinux()
        ? null
        : new DateTimeOffset(Try("Cannot ask for the state of the file", () => File.GetCreationTimeUtc(handle)));

    /// <inheritdoc/>
    public override DateTimeOffset LastWritten =>
        new(Try("Cannot ask for the state of the file", () => File.GetLastWriteTimeUtc(handle)));

    /// <inheritdoc/>
    public override void NoteWritten() => NoteWritten(handle);

    /// <inheritdoc cref="NoteWritten()"/>
    internal static void NoteWritten(SafeFileHandle handle)
    {
        try
        {
            File.SetLastWriteTimeUtc(handle, DateTime.UtcNow);
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            // The files of another user: the time stays that of the last write which the system has noticed.
        }
    }

    /// <inheritdoc/>
    public override void SetLength(long length)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(length);
        try
        {
            RandomAccess.SetLength(handle, length);
        }
        catch (ArgumentOutOfRangeException error)
        {
            // The BCL reports EFBIG like this.
            throw DiskErrors.Make(
                $"Cannot set the length of the file to {length} bytes", path, DiskErrors.EFBIG, "File too large", error);
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            throw PortableErrors.Make($"Cannot set the length of the file to {length} bytes", path, error);
        }
    }

    /// <inheritdoc/>
    public override bool TryAllocate(long offset, long length) => false;

    /// <inheritdoc/>
    public override void Allocate(long offset, long length)
    {
        ZeroFill.CheckRange(offset, length, Length);
        lock (_allocating)
        {
            long end = offset + length;
            bool touchesKnown = offset <= _allocatedTo && end >= _allocatedFrom;
            if (touchesKnown)
            {
                // Bytes that a finished call covered may hold messages by now, so only the bytes outside are checked.
                ZeroFill.WriteWhereZero(this, offset, Math.Min(end, _allocatedFrom));
                ZeroFill.WriteWhereZero(this, Math.Max(offset, _allocatedTo), end);
                _allocatedFrom = Math.Min(_allocatedFrom, offset);
                _allocatedTo = Math.Max(_allocatedTo, end);
                return;
            }

            ZeroFill.WriteWhereZero(this, offset, end);
            (_allocatedFrom, _allocatedTo) = (offset, end);
        }
    }

    /// <inheritdoc/>
    public override int ReadAt(Span<byte> destination, long position)
    {
        try
        {
            return ReadAt(handle, destination, position);
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            throw PortableErrors.Make($"Cannot read at {position}", path, error);
        }
    }

    /// <summary>Reads until the buffer is full or the file ends; the errors are the BCL's own.</summary>
    internal static int ReadAt(SafeFileHandle handle, Span<byte> destination, long position)
    {
        int done = 0;
        while (done < destination.Length)
        {
            int count = RandomAccess.Read(handle, destination[done..], position + done);
            if (count == 0)
                break;
            done += count;
        }

        return done;
    }

    /// <inheritdoc/>
    public override void WriteAt(ReadOnlySpan<byte> source, long position)
    {
        try
        {
            RandomAccess.Write(handle, source, position);
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            throw PortableErrors.Make($"Cannot write at {position}", path, error);
        }
    }

    /// <inheritdoc/>
    public override void FlushData() => Try("Cannot flush the file to the disk", () =>
    {
        // On Unix the BCL takes three errors of fsync for success (EROFS, EINVAL, ENOTSUP). A file system that turned read-only
        // under an open file answers with the first of them, and has lost what it had not written. The flush of a mapping (msync)
        // asks the same of the system, through the same open file, and reports every error.
        bool isTold = isWritable && !OperatingSystem.IsWindows() && TryFlushAsMapping();
        // On Linux that was all. macOS leaves the data in the drive's cache, which this call empties.
        if (!isTold || !OperatingSystem.IsLinux())
            RandomAccess.FlushToDisk(handle);
        return true;
    });

    /// <inheritdoc/>
    public override MappedView Map(long length, bool writable)
    {
        ArgumentOutOfRangeException.ThrowIfNegativeOrZero(length);

        // The BCL would extend a file that is too short instead of refusing it.
        long fileLength = Length;
        if (fileLength < length)
            throw ZeroFill.TooShort(path, fileLength, length);
        return Try($"Cannot map {length} bytes of the file", () =>
        {
            MemoryMappedFileAccess access = writable ? MemoryMappedFileAccess.ReadWrite : MemoryMappedFileAccess.Read;
            using MemoryMappedFile mapped = MemoryMappedFile.CreateFromFile(
                handle, mapName: null, capacity: 0, access, HandleInheritability.None, leaveOpen: true);
            MemoryMappedViewAccessor view = mapped.CreateViewAccessor(0, length, access);
            return new PortableView(view, length);
        });
    }

    /// <inheritdoc/>
    public override void Dispose() => handle.Dispose();

    /// <summary>
    /// Flushes the whole file through a mapping that nothing accesses; it costs two more system calls, and no page fault. False
    /// for an empty file, which has no mapping, where the file system cannot map files, and where this process has no mapping
    /// left.
    /// </summary>
    private bool TryFlushAsMapping()
    {
        if (RandomAccess.GetLength(handle) == 0)
            return false;
        MemoryMappedFile mapped;
        MemoryMappedViewAccessor view;
        try
        {
            mapped = MemoryMappedFile.CreateFromFile(
                handle, mapName: null, capacity: 0, MemoryMappedFileAccess.Read, HandleInheritability.None, leaveOpen: true);
            view = mapped.CreateViewAccessor(0, 0, MemoryMappedFileAccess.Read);
        }
        catch (Exception error) when (error is OutOfMemoryException
            || (error is IOException && PortableErrors.Number(error) is DiskErrors.ENODEV or DiskErrors.ENOMEM))
        {
            return false;
        }

        try
        {
            view.Flush();
            return true;
        }
        finally
        {
            // The accessor's own Dispose would flush once more.
            view.SafeMemoryMappedViewHandle.Dispose();
            mapped.Dispose();
        }
    }

    private T Try<T>(string failed, Func<T> call) => PortableErrors.Try(failed, path, call);
}
