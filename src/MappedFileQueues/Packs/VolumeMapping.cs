using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs;

/// <summary>
/// A volume in memory, for gets that copy from there instead of asking the system (<see cref="PackOptions.MapsVolumes"/>). It is
/// made by the first get, once, and on Linux as long as the volume may become: a put is seen in it as soon as it is
/// written. Any thread that holds a lease on the volume.
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

    private readonly Lock _making = new();
    private MappedRegion? _region;
    private bool _isRefused;

    /// <summary>
    /// Copies what stands at a place that lies before <paramref name="tail"/>; false when the caller has to read the file.
    /// </summary>
    public bool TryRead(Span<byte> destination, long position, long tail)
    {
        if (destination.Length > LengthMax || (Volatile.Read(ref _region) ?? Make(tail)) is not { } region)
            return false;
        if (position + destination.Length > region.Length)
            return false;
        new ReadOnlySpan<byte>(region.Pointer + position, destination.Length).CopyTo(destination);
        return true;
    }

    public void Dispose() => _region?.Dispose();

    /// <summary>
    /// Null when the system has no room for it, or the file is shorter than its needles say: who looks there is killed.
    /// </summary>
    private MappedRegion? Make(long tail)
    {
        if (Volatile.Read(ref _isRefused))
            return null;
        lock (_making)
        {
            if (_region is not null || _isRefused)
                return _region;
            try
            {
                if (file.Length >= tail)
                    Volatile.Write(ref _region, new MappedRegion(file.MapAhead(volumeLength)));
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
