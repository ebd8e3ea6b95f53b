using MappedFileQueues.Packs.Format;

namespace MappedFileQueues.Packs;

/// <summary>When a put or a delete returns.</summary>
public enum PackDurability
{
    /// <summary>
    /// Return when the operating system has the bytes. They survive the end of the process, however it ends. A power cut may lose
    /// them.
    /// </summary>
    PageCache = 0,

    /// <summary>
    /// Return when the bytes are on disk. A power cut loses nothing that was acknowledged. Threads that put at the same time
    /// share one sync.
    /// </summary>
    Group = 1,
}

/// <summary>How to create and write a pack. Opening a pack copies the values.</summary>
public sealed class PackOptions
{
    private long _volumeSize = 1L << 30;
    private long _checkpointInterval = 256L << 20;

    /// <summary>
    /// The length of a volume in bytes; default 1 GiB, rounded up to a multiple of 8. It is fixed when the pack is created. A
    /// pack has at most 16,384 volumes, of which puts leave one to a compaction, so this limits the size of a pack.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is less than 4 KiB or more than 16 GiB.</exception>
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
    /// When puts and deletes return whose caller does not specify it; default <see cref="PackDurability.PageCache"/>.
    /// </summary>
    public PackDurability Durability { get; set; } = PackDurability.PageCache;

    /// <summary>
    /// After this many bytes of puts and deletes a thread of the pool writes a checkpoint of the index, so opening after a crash
    /// reads at most this much; default 256 MiB. Disposing the pack writes a checkpoint too.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is less than 1.</exception>
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
    /// Whether gets of up to 16 KiB copy from a mapping of the volume instead of reading its file, on Linux; default true. If the
    /// pack fits into memory, a get then takes about half the time (docs/BENCHMARKS.md). A page that the disk cannot read, or
    /// that the file does not have, is an exception either way. With a mapping, two cases end the process (SIGBUS), which are
    /// exceptions with false: another program truncates a volume while it is open, or the disk loses a page that it could read
    /// before and that the system has dropped from memory since. Mapped pages that were read count as memory of the process.
    /// </summary>
    public bool MapVolumes { get; set; } = true;

    /// <summary>
    /// If a damaged part of the pack may have held a newer value of a key, or its deletion, a get of that key throws
    /// <see cref="QueueCorruptException"/>. With true it returns the value that is known, as if the damaged part had been empty.
    /// Default false.
    /// </summary>
    public bool AllowStaleValues { get; set; }

    /// <summary>Whether to create a pack that is missing; default true.</summary>
    public bool CreateIfMissing { get; set; } = true;

    /// <summary>
    /// The permissions of new files and directories, on Unix, whatever the umask: read and write bits for files, and search
    /// permission for directories. Default null: a new directory is 0700. The first files of a pack get the read and write bits
    /// of its directory, minus the umask, and never write permission for others. All later files get those of `pack.meta`.
    /// </summary>
    public UnixFileMode? UnixCreateMode { get; set; }

    /// <summary>
    /// Whether to open packs on network and FUSE file systems; default false. Their locks do not reliably keep a second writer
    /// out.
    /// </summary>
    public bool DangerouslyAllowFileSystem { get; set; }
}
