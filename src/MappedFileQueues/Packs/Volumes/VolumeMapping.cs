using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Volumes;

/// <summary>
/// A volume in memory, for gets that copy from there instead of asking the system (<see cref="PackOptions.MapVolumes"/>). It is
/// made by the first get, once, and as long as the volume may become: a put is seen in it as soon as it is written. A look at a
/// place that the disk or the file does not have would end the process, so a window of the volume is looked into only
/// after the system has said that all of it is there; until then, and where it is not, the file is read, and its error is an
/// exception. Any thread that holds a lease on the volume.
/// </summary>
/// <param name="file">The volume's file.</param>
/// <param name="volumeLength">How long volumes become that hold no single larger needle.</param>
internal sealed unsafe class VolumeMapping(PlatformFile file, long volumeLength) : IDisposable
{
    /// <summary>
    /// More is read by the system in any case: a mapping waits for each page that is not in the cache, a read once for all of
    /// them; and the call itself is a small part of what so long a get costs.
    /// </summary>
    private const int LengthMax = 16 * 1024;

    private const int PageLength = 4096;
    private const int WindowLength = 1 << ReadAround.WindowBits;

    // What is known of a window; above LookedAt, so many of its first pages are there.
    private const byte Unseen = 0;
    private const byte LookedAt = 1;
    private const byte Unreadable = byte.MaxValue;

    private readonly Lock _making = new();
    private MappedRegion? _region;

    /// <summary>Made before the region.</summary>
    private byte[] _windows = [];
    private bool _isRefused;

    /// <summary>
    /// Copies what stands at a place that lies before <paramref name="tail"/>; false when the caller has to read the file.
    /// </summary>
    public bool TryRead(Span<byte> destination, long position, long tail)
    {
        long end = position + destination.Length;
        if (destination.Length > LengthMax || end > volumeLength || (Volatile.Read(ref _region) ?? Make()) is not { } region)
            return false;
        for (long window = position / WindowLength; window * WindowLength < end; window++)
        {
            if (!IsThere(region, window, end - window * WindowLength, tail))
                return false;
        }

        new ReadOnlySpan<byte>(region.Pointer + position, destination.Length).CopyTo(destination);
        return true;
    }

    public void Dispose() => _region?.Dispose();

    private static int PagesOf(long length) => (int)((Math.Min(length, WindowLength) + PageLength - 1) / PageLength);

    /// <summary>
    /// Whether the window's first <paramref name="length"/> bytes can be looked at. Two threads that find out at once may write
    /// the smaller answer over the larger one: then it is asked for once more.
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
    /// By the second look: the first has asked for the window (<see cref="ReadAround"/>), and waits for what it wants alone.
    /// </summary>
    private byte Bring(MappedRegion region, long window, long tail)
    {
        long start = window * WindowLength;
        int pages = PagesOf(tail - start);

        // What the system has dropped meanwhile comes in one piece, and not page by page.
        file.AdviseWillNeed(start, pages * PageLength);
        return region.TryTouchForReading(start, pages * PageLength) ? (byte)(LookedAt + pages) : Unreadable;
    }

    /// <summary>Null when the system has no room for it, or cannot tell what is there.</summary>
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
                // Too many mappings, say. Reading works as before.
            }

            Volatile.Write(ref _isRefused, _region is null);
            return _region;
        }
    }
}
