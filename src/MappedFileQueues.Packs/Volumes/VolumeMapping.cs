using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Volumes;

/// <summary>
/// A mapping of a volume, for gets that copy from memory instead of calling the system (<see cref="PackOptions.MapVolumes"/>).
/// The first get creates it, once, with the full length that the volume may reach, so a put is visible in it as soon as it is
/// written. A load from a page that the disk or the file does not have would end the process. So nothing loads from a window of
/// the volume before the system has confirmed that all of it is there. Until then, and if something is missing, the file is read,
/// and a read error is an exception. For any thread that holds a reference on the volume.
/// </summary>
/// <param name="file">The volume's file.</param>
/// <param name="volumeLength">The length that a volume may reach, unless it holds a single larger needle.</param>
internal sealed unsafe class VolumeMapping(PlatformFile file, long volumeLength) : IDisposable
{
    /// <summary>
    /// Longer needles are always read by a call. A mapping waits for each page that is not in the cache, a read waits once for
    /// all of them; and the call itself is a small part of what such a long get costs.
    /// </summary>
    private const int LengthMax = 16 * 1024;

    private const int PageLength = 4096;
    private const int WindowLength = 1 << ReadAround.WindowBits;

    // What is known of a window. Values above LookedAt count the pages at its start that are there.
    private const byte Unseen = 0;
    private const byte LookedAt = 1;
    private const byte Unreadable = byte.MaxValue;

    private readonly Lock _making = new();
    private MappedRegion? _region;

    /// <summary>Set before the region.</summary>
    private byte[] _windows = [];
    private bool _isRefused;

    /// <summary>Copies bytes that are before <paramref name="tail"/>; false if the caller has to read the file instead.</summary>
    public bool TryRead(Span<byte> destination, long position, long tail)
    {
        long end = position + destination.Length;
        if (destination.Length > LengthMax || end > volumeLength || Volatile.Read(ref _isRefused)
            || (Volatile.Read(ref _region) ?? Make()) is not { } region)
            return false;
        for (long window = position / WindowLength; window * WindowLength < end; window++)
        {
            if (!IsThere(region, window, end - window * WindowLength, tail))
                return false;
        }

        new ReadOnlySpan<byte>(region.Pointer + position, destination.Length).CopyTo(destination);
        return true;
    }

    /// <summary>
    /// Gets read the file from now on; false when they do already. For a needle that is damaged in the mapping: on overlayfs a
    /// mapping keeps showing the lower layer's file once a writer has copied that up, and a call reads the copy.
    /// </summary>
    public bool Refuse() => !Interlocked.Exchange(ref _isRefused, true);

    public void Dispose() => _region?.Dispose();

    private static int PagesOf(long length) => (int)((Math.Min(length, WindowLength) + PageLength - 1) / PageLength);

    /// <summary>
    /// Whether the window's first <paramref name="length"/> bytes can be loaded. Two threads that find out at the same time may
    /// overwrite the larger answer with the smaller one: then the system is asked once more.
    /// </summary>
    private bool IsThere(MappedRegion region, long window, long length, long tail)
    {
        byte known = Volatile.Read(ref _windows[window]);
        if (known == Unreadable)
            return false;
        if (known - LookedAt >= PagesOf(length))
            return true;
        byte answer = known == Unseen ? LookedAt : Bring(region, window, tail);
        Volatile.Write(ref _windows[window], answer);
        return answer is not (LookedAt or Unreadable);
    }

    /// <summary>
    /// Runs at the second look at a window. The first look requested the window from the disk (<see cref="ReadAround"/>), and
    /// waits only for its own pages.
    /// </summary>
    private byte Bring(MappedRegion region, long window, long tail)
    {
        long start = window * WindowLength;
        int pages = PagesOf(tail - start);

        // Pages that the system has dropped since are read in one piece, and not one by one.
        file.AdviseWillNeed(start, pages * PageLength);
        return region.TryTouchForReading(start, pages * PageLength) ? (byte)(LookedAt + pages) : Unreadable;
    }

    /// <summary>Null if the system has no room for the mapping, or cannot tell what is there.</summary>
    private MappedRegion? Make()
    {
        if (Volatile.Read(ref _isRefused))
            return null;
        lock (_making)
        {
            if (_region is not null || _isRefused)
                return _region;
            try
            {
                if (file.MapAhead(volumeLength) is { } view)
                {
                    _windows = new byte[(volumeLength + WindowLength - 1) / WindowLength];
                    Volatile.Write(ref _region, new MappedRegion(view));
                }
            }
            catch (QueueDiskException)
            {
                // For example, there are too many mappings. Reading the file still works.
            }

            if (_region is null)
                Volatile.Write(ref _isRefused, true);
            return _region;
        }
    }
}
