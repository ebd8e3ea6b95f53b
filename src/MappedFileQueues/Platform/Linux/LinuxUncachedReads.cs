using MappedFileQueues.Platform.Linux.Calls;

namespace MappedFileQueues.Platform.Linux;

/// <summary>
/// Reads of an open file that bypass the system's memory (O_DIRECT): the disk writes straight into the caller's. They have their
/// own open file description, created by the first read, because that flag holds for all reads of one. Members may be called from
/// any thread.
/// </summary>
internal sealed unsafe class LinuxUncachedReads(LinuxHandle file) : IDisposable
{
    private readonly Lazy<LinuxHandle> _handle = new(() => Reopen(file));
    private volatile bool _isRefused;

    /// <summary>
    /// True if the file system cannot do it, or /proc is missing to reopen the file; every further read gives 0.
    /// </summary>
    public bool IsRefused => _isRefused;

    /// <summary>
    /// True if cachestat(2) says that the system has the page of a position in memory. False also where it does not tell: before
    /// Linux 6.5, and in some later versions to a user that may not write the file. A read that may not wait would tell every
    /// user, but it begins to read the page if it is not there.
    /// </summary>
    public bool IsCached(long position)
    {
        LinuxCacheRange range = new() { Position = (ulong)position, Length = 1 };
        LinuxCacheState state = default;
        return LinuxNative.cachestat(LinuxNative.SYS_cachestat, file, &range, &state, 0) == 0 && state.Cached > 0;
    }

    /// <summary>
    /// One read; position, length and memory are multiples of a page. Fewer bytes, possibly 0, where the file ends and where the
    /// read failed.
    /// </summary>
    public int ReadAt(Span<byte> destination, long position)
    {
        if (_isRefused || _handle.Value.IsInvalid)
        {
            _isRefused = true;
            return 0;
        }

        nint count;
        int errno;
        fixed (byte* start = destination)
        {
            count = LinuxNative.pread(_handle.Value, start, destination.Length, position);
            errno = LinuxErrors.Last;
        }

        if (count < 0 && errno is (DiskErrors.EINVAL or DiskErrors.EOPNOTSUPP))
            _isRefused = true;
        return (int)Math.Max(count, 0);
    }

    /// <inheritdoc/>
    public void Dispose()
    {
        if (_handle.IsValueCreated)
            _handle.Value.Dispose();
    }

    // Not by its path, which may be another file's by now.
    private static LinuxHandle Reopen(LinuxHandle file) =>
        LinuxHandle.Open($"/proc/self/fd/{file.Number}", LinuxNative.O_RDONLY | LinuxNative.O_CLOEXEC | LinuxNative.O_DIRECT);
}
