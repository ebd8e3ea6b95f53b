using MappedFileQueues.Packs.Format;

namespace MappedFileQueues.Packs;

/// <summary>When a put or a delete returns.</summary>
public enum PackDurability
{
    /// <summary>
    /// When the operating system has the bytes: they survive the end of the process, however it ends, and a power cut may take
    /// them.
    /// </summary>
    PageCache = 0,

    /// <summary>
    /// When they are on disk: nothing that was acknowledged is lost in a power cut. Threads that put at the same time share
    /// one sync.
    /// </summary>
    Group = 1,
}

/// <summary>How a pack is made and written. The values are copied when a pack is opened.</summary>
public sealed class PackOptions
{
    private long _volumeSize = 1L << 30;
    private long _checkpointInterval = 256L << 20;

    /// <summary>
    /// The length of a volume in bytes, default 1 GiB, rounded up to a multiple of 8; it belongs to the pack once that is
    /// made. A pack has at most 16,384 volumes, of which puts leave one to a compaction, so this bounds what fits into one.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">Less than 4 KiB or more than 16 GiB.</exception>
    public long VolumeSize
    {
        get => _volumeSize;
        set
        {
            ArgumentOutOfRangeException.ThrowIfLessThan(value, PackMeta.VolumeLengthMin);
            ArgumentOutOfRangeException.ThrowIfGreaterThan(value, PackMeta.VolumeLengthMax);
            _volumeSize = (value + NeedleLayout.Unit - 1) & -NeedleLayout.Unit;
        }
    }

    /// <summary>
    /// When puts and deletes return that do not say it themselves; default <see cref="PackDurability.PageCache"/>.
    /// </summary>
    public PackDurability Durability { get; set; } = PackDurability.PageCache;

    /// <summary>
    /// After so many bytes of puts and deletes the index is written down, by a thread of the pool, so that opening after a crash
    /// reads that much at most; default 256 MiB. Disposing the pack writes it too.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">Less than 1.</exception>
    public long CheckpointInterval
    {
        get => _checkpointInterval;
        set
        {
            ArgumentOutOfRangeException.ThrowIfLessThan(value, 1);
            _checkpointInterval = value;
        }
    }

    /// <summary>
    /// Whether gets of up to 16 KiB copy from a mapping of the volume, on Linux, instead of reading its file; default true. For a
    /// pack that fits into memory a get is twice as fast then (docs/BENCHMARKS.md). A place that the disk cannot read, or that
    /// the file does not have, is an exception either way. With a mapping the process is ended (SIGBUS) in two cases that false
    /// makes exceptions too: somebody else truncates a volume while it is open, or the disk loses a place that it could read
    /// before
    /// and that the system has dropped from memory since. What was got counts as memory of the process.
    /// </summary>
    public bool MapVolumes { get; set; } = true;

    /// <summary>
    /// Where a part of the pack is damaged that may have held a newer value of a key, or its deletion, a get of that key is a
    /// <see cref="QueueCorruptException"/>; with true it answers with what is known, as if nothing had stood there. Default
    /// false.
    /// </summary>
    public bool AllowStaleValues { get; set; }

    /// <summary>Whether a pack is made where there is none; default true.</summary>
    public bool CreateIfMissing { get; set; } = true;

    /// <summary>
    /// The permissions of what is made, on Unix, whatever the umask: read and write bits for files, and the right to enter for
    /// directories. Default null. Then a directory that is made is 0700; the first files of a pack get the read and write bits of
    /// its directory, less what the umask takes and never the right of others to write; and all later ones those of `pack.meta`.
    /// </summary>
    public UnixFileMode? UnixCreateMode { get; set; }

    /// <summary>
    /// Network and FUSE file systems are refused without it: their locks do not dependably keep a second writer out.
    /// </summary>
    public bool DangerouslyAllowFileSystem { get; set; }
}
