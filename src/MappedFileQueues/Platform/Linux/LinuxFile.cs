using MappedFileQueues.Platform.Linux.Calls;

namespace MappedFileQueues.Platform.Linux;

/// <summary>A file by its descriptor.</summary>
internal sealed unsafe class LinuxFile(string path, LinuxHandle handle) : PlatformFile
{
    private const int StatBlockLength = 512;

    private bool _isTaken;

    /// <summary>
    /// `ulimit -f` now; `prlimit` changes it while a process runs. A call that goes beyond it would end the process by SIGXFSZ,
    /// which the runtime leaves at its default; to ignore the signal would be the application's decision. So no such call is
    /// made.
    /// </summary>
    private static long LengthMax
    {
        get
        {
            ulong* limits = stackalloc ulong[2];
            return LinuxNative.getrlimit(LinuxNative.RLIMIT_FSIZE, limits) == 0 && limits[0] < long.MaxValue
                ? (long)limits[0]
                : long.MaxValue;
        }
    }

    private LinuxHandle Handle => handle;

    /// <inheritdoc/>
    public override string Path => path;

    /// <inheritdoc/>
    public override void NoteName(string newPath) => path = newPath;

    /// <inheritdoc/>
    public override long Length => (long)LinuxDirectory.Stat(handle, path).Size;

    /// <inheritdoc/>
    public override long AllocatedLength => (long)LinuxDirectory.Stat(handle, path).Blocks * StatBlockLength;

    /// <inheritdoc/>
    public override FileIdentity Identity => LinuxDirectory.Stat(handle, path).Identity;

    /// <inheritdoc/>
    public override DateTimeOffset? Birth =>
        LinuxDirectory.Stat(handle, path).Birth is > 0 and long birth
            ? DateTimeOffset.UnixEpoch.AddTicks(birth / TimeSpan.NanosecondsPerTick)
            : null;

    /// <inheritdoc/>
    public override DateTimeOffset LastWritten => LinuxDirectory.Stat(handle, path).LastWritten;

    /// <inheritdoc/>
    public override void NoteWritten() => _ = LinuxNative.futimens(handle, null);

    /// <inheritdoc/>
    public override bool HasOtherNames => LinuxDirectory.Stat(handle, path).LinkCount > 1;

    /// <inheritdoc/>
    public override bool HasNoName => LinuxDirectory.Stat(handle, path).LinkCount == 0;

    /// <inheritdoc/>
    public override bool TryTakeAlone()
    {
        // Not flock(2): .NET takes a shared one for every file that it opens, so readers would be refused.
        if (TrySetRange(LinuxNative.F_WRLCK, out int errno))
            return _isTaken = true;
        return errno switch
        {
            DiskErrors.EAGAIN or DiskErrors.EACCES => false,
            DiskErrors.EINVAL or DiskErrors.ENOSYS or DiskErrors.EOPNOTSUPP or DiskErrors.ENOLCK => true,
            _ => throw LinuxErrors.Make("Cannot lock the file", path, errno),
        };
    }

    /// <inheritdoc/>
    public override bool IsTakenAlone => _isTaken;

    /// <inheritdoc/>
    public override void EndAlone()
    {
        _ = TrySetRange(LinuxNative.F_UNLCK, out _);
        _isTaken = false;
    }

    /// <inheritdoc/>
    public override bool TryUse() => LinuxLock.TryFlock(handle, LockKind.Shared, path);

    /// <inheritdoc/>
    public override bool TryTakeUnused() => LinuxLock.TryFlock(handle, LockKind.Exclusive, path);

    /// <inheritdoc/>
    public override void EndUse() => _ = LinuxNative.flock(handle, LinuxNative.LOCK_UN);

    /// <inheritdoc/>
    public override void SetLength(long length)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(length);
        if (length > LengthMax && length > Length)
            throw LinuxErrors.Make($"Cannot set the length of the file to {length} bytes", path, DiskErrors.EFBIG);
        while (LinuxNative.ftruncate(handle, length) != 0)
        {
            int errno = LinuxErrors.Last;
            if (errno != DiskErrors.EINTR)
                throw LinuxErrors.Make($"Cannot set the length of the file to {length} bytes", path, errno);
        }
    }

    /// <inheritdoc/>
    public override void Allocate(long offset, long length)
    {
        if (!TryAllocate(offset, length))
            FillHoles(offset, offset + length);
    }

    /// <inheritdoc/>
    public override bool TryAllocate(long offset, long length)
    {
        ZeroFill.CheckRange(offset, length, Length);
        if (length == 0)
            return true;

        // KEEP_SIZE, although the range is inside the file: without it ext4 leaves the file longer when the disk is full.
        return TryFallocate(LinuxNative.FALLOC_FL_KEEP_SIZE, offset, length);
    }

    /// <inheritdoc/>
    public override bool TryReserve(long offset, long length) =>
        length == 0 || TryFallocate(LinuxNative.FALLOC_FL_KEEP_SIZE, offset, length);

    /// <inheritdoc/>
    public override bool TryZeroRange(long offset, long length) =>
        length == 0 || TryFallocate(LinuxNative.FALLOC_FL_ZERO_RANGE, offset, length);

    /// <inheritdoc/>
    public override long FindData(long offset)
    {
        long found = LinuxNative.lseek(handle, offset, LinuxNative.SEEK_DATA);
        int errno = LinuxErrors.Last;
        if (found >= 0)
            return found;

        // ENXIO: nothing but a hole until the end. Any other error: the file system cannot tell, and the read will report why.
        return errno == DiskErrors.ENXIO ? long.MaxValue : offset;
    }

    /// <inheritdoc/>
    public override bool TryClone(PlatformFile source)
    {
        if (source is not LinuxFile other)
            return false;
        while (LinuxNative.ioctl(handle, LinuxNative.FICLONE, other.Handle) != 0)
        {
            int errno = LinuxErrors.Last;

            // A file system that does not know the call says so by one of the first four.
            if (errno is DiskErrors.EOPNOTSUPP or DiskErrors.ENOTTY or DiskErrors.EINVAL or DiskErrors.ENOSYS
                or DiskErrors.EXDEV or DiskErrors.EPERM)
                return false;
            if (errno != DiskErrors.EINTR)
                throw LinuxErrors.Make("Cannot share the blocks of another file", path, errno);
        }

        return true;
    }

    /// <inheritdoc/>
    public override int ReadAt(Span<byte> destination, long position)
    {
        int done = handle.ReadAt(destination, position, out int errno);
        return errno == 0 ? done : throw LinuxErrors.Make($"Cannot read at {position + done}", path, errno);
    }

    /// <inheritdoc/>
    public override void WriteAt(ReadOnlySpan<byte> source, long position)
    {
        int done = 0;
        fixed (byte* start = source)
        {
            while (done < source.Length)
            {
                if (position + done >= LengthMax)
                    throw LinuxErrors.Make($"Cannot write at {position + done}", path, DiskErrors.EFBIG);
                nint count = LinuxNative.pwrite(handle, start + done, source.Length - done, position + done);
                int errno = LinuxErrors.Last;
                if (count > 0)
                    done += (int)count;
                else if (count == 0 || errno != DiskErrors.EINTR)
                    throw LinuxErrors.Make($"Cannot write at {position + done}", path, count == 0 ? DiskErrors.EIO : errno);
            }
        }
    }

    /// <inheritdoc/>
    public override void FlushData() => FlushData(failed: null);

    /// <inheritdoc/>
    public override void FlushData(Action? failed)
    {
        while (LinuxNative.fdatasync(handle) != 0)
        {
            int errno = LinuxErrors.Last;
            if (errno == DiskErrors.EINTR)
                continue;
            failed?.Invoke();
            throw CannotFlush(errno);
        }
    }

    /// <inheritdoc/>
    public override void StartWriteBack(long offset, long length) =>
        _ = LinuxNative.sync_file_range(handle, offset, length, LinuxNative.SYNC_FILE_RANGE_WRITE);

    /// <inheritdoc/>
    public override void AwaitWriteBack(long offset, long length, Action? failed)
    {
        if (LinuxNative.sync_file_range(handle, offset, length, LinuxNative.SYNC_FILE_RANGE_WAIT_BEFORE) == 0)
            return;
        int errno = LinuxErrors.Last;
        // Others, such as a signal or a file system that does not know the call, tell nothing of the data.
        if (errno != DiskErrors.EIO && !DiskErrors.IsFull(errno))
            return;
        failed?.Invoke();
        throw CannotFlush(errno);
    }

    /// <inheritdoc/>
    public override void AdviseWillNeed(long offset, long length) =>
        _ = LinuxNative.posix_fadvise(handle, offset, length, LinuxNative.POSIX_FADV_WILLNEED);

    /// <inheritdoc/>
    public override void CacheSinglePages(long offset, long length)
    {
        // This advice brings data in the smallest pieces that the file system has (mm/readahead.c, force_page_cache_ra); a call
        // brings no more than the device's read-ahead, 128 KiB by default.
        const int AdviceMax = 128 * 1024;
        for (long end = offset + length; offset < end; offset += AdviceMax)
            AdviseWillNeed(offset, Math.Min(AdviceMax, end - offset));
    }

    /// <inheritdoc/>
    public override MappedView Map(long length, bool writable)
    {
        ArgumentOutOfRangeException.ThrowIfNegativeOrZero(length);

        // The system maps beyond the end too, and then kills a process that accesses it.
        long fileLength = Length;
        if (fileLength < length)
            throw ZeroFill.TooShort(path, fileLength, length);
        LinuxView view = MapAny(length, writable);
        view.AskForCached(handle, fileLength);
        return view;
    }

    /// <inheritdoc/>
    public override MappedView MapAhead(long length)
    {
        LinuxView view = MapAny(length, writable: false);

        // Otherwise each page that is not in the cache brings 128 KiB along.
        view.StopReadAhead(0, length);
        return view;
    }

    /// <inheritdoc/>
    public override bool LooksFillHoles => LinuxFileSystems.IsTmpfs(handle);

    /// <inheritdoc/>
    public override void Dispose()
    {
        // An explicit unlock: a child that is just being started holds a copy of the descriptor until its exec.
        if (_isTaken && !handle.IsClosed)
            EndAlone();
        handle.Dispose();
    }

    /// <summary>A lock of the open file (F_OFD_SETLK, Linux 3.15) on its last possible byte, which nothing else locks.</summary>
    private bool TrySetRange(short type, out int errno)
    {
        LinuxRangeLock range = new() { Type = type, Start = long.MaxValue - 1, Length = 1 };
        while (LinuxNative.fcntl(handle, LinuxNative.F_OFD_SETLK, &range) != 0)
        {
            errno = LinuxErrors.Last;
            if (errno != DiskErrors.EINTR)
                return false;
        }

        errno = 0;
        return true;
    }

    /// <summary>
    /// Without fallocate: writes zeros only where the file system reports holes. A file system that reports no hole in a file
    /// with too few blocks cannot tell; there, blocks are judged by their contents.
    /// </summary>
    private void FillHoles(long offset, long end)
    {
        long fileLength = Length;
        if (Seek(0, LinuxNative.SEEK_HOLE) >= fileLength)
        {
            if (AllocatedLength < fileLength)
                ZeroFill.WriteWhereZero(this, offset, end);
            return;
        }

        for (long hole = Seek(offset, LinuxNative.SEEK_HOLE); hole < end;)
        {
            long data = Math.Min(Seek(hole, LinuxNative.SEEK_DATA), end);
            ZeroFill.Write(this, hole, data);
            hole = data < end ? Seek(data, LinuxNative.SEEK_HOLE) : end;
        }
    }

    private LinuxView MapAny(long length, bool writable) =>
        LinuxView.TryMap(handle, 0, length, writable, out int errno) ??
            throw LinuxErrors.Make($"Cannot map {length} bytes of the file", path, errno);

    private QueueDiskException CannotFlush(int errno) => LinuxErrors.Make("Cannot flush the file to the disk", path, errno);

    private bool TryFallocate(int mode, long offset, long length)
    {
        // tmpfs looks at the limit also where the file's length stays as it is.
        if (offset + length > LengthMax && offset + length > Length)
            throw LinuxErrors.Make($"Cannot allocate blocks at {offset} for {length} bytes", path, DiskErrors.EFBIG);
        while (LinuxNative.fallocate(handle, mode, offset, length) != 0)
        {
            int errno = LinuxErrors.Last;

            // EOPNOTSUPP of the file system. A sandbox that denies the call says one of the other two; of a file that is open for
            // writing the kernel does not.
            if (errno is DiskErrors.EOPNOTSUPP or DiskErrors.ENOSYS or DiskErrors.EPERM)
                return false;
            if (errno != DiskErrors.EINTR)
                throw LinuxErrors.Make($"Cannot allocate blocks at {offset} for {length} bytes", path, errno);
        }

        return true;
    }

    private long Seek(long from, int whence)
    {
        long found = LinuxNative.lseek(handle, from, whence);
        int errno = LinuxErrors.Last;
        if (found >= 0)
            return found;

        // ENXIO: nothing but a hole until the end. EINVAL: a file system, or a kernel, without these two operations.
        return errno is DiskErrors.ENXIO or DiskErrors.EINVAL
            ? long.MaxValue
            : throw LinuxErrors.Make("Cannot look for holes in the file", path, errno);
    }
}
