using MappedFileQueues.Packs.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs;

/// <summary>When a put or a delete returns.</summary>
public enum PackDurability
{
    /// <summary>
    /// Return when the operating system has the bytes. They survive the end of the process, however it ends. A power loss may
    /// lose them.
    /// </summary>
    PageCache = 0,

    /// <summary>
    /// Return when the bytes are on disk. A power loss loses nothing that was acknowledged. Threads that put at the same time
    /// share one sync.
    /// </summary>
    Group = 1,
}

/// <summary>How to create and write a pack. Opening a pack copies the values.</summary>
public sealed class PackOptions
{
    private const long VolumeSizeDefault = 1L << 30;
    private const int VolumesOfCache = 16;

    private long? _volumeSize;
    private long? _maxBytes;
    private double? _compactAtGarbage;
    private PackDurability _durability = PackDurability.PageCache;
    private long _checkpointInterval = 256L << 20;
    private UnixFileMode? _unixCreateMode;

    /// <summary>
    /// The length of a volume in bytes, rounded up to a multiple of 8; default 1 GiB, or a sixteenth of <see cref="MaxBytes"/>,
    /// whichever is less. It is fixed when the pack is created. A
    /// pack has at most 16,384 volumes, of which puts leave one to a compaction, so this limits the size of a pack.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is less than 4 KiB or more than 16 GiB.</exception>
    public long VolumeSize
    {
        get => _volumeSize ?? (_maxBytes is { } max
            ? Math.Clamp(max / VolumesOfCache & -NeedleLayout.Unit, PackMeta.VolumeLengthMin, VolumeSizeDefault)
            : VolumeSizeDefault);
        set
        {
            ArgumentOutOfRangeException.ThrowIfLessThan(value, PackMeta.VolumeLengthMin);
            ArgumentOutOfRangeException.ThrowIfGreaterThan(value, PackMeta.VolumeLengthMax);
            _volumeSize = (value + NeedleLayout.Unit - 1) & -NeedleLayout.Unit;
        }
    }

    /// <summary>
    /// Makes the pack a cache: how many bytes its objects may take in the volumes, with keys, overhead and garbage. When a put
    /// needs a new volume that could exceed this, the oldest volumes are evicted first, with everything in them: what was put
    /// longest ago, whether or not it was got since. At least two volumes. Default null: nothing is ever evicted. Not stored: it
    /// counts for this opening, which begins by evicting what is too much. The checkpoint, the volume that takes the place of
    /// those that were evicted, and a compaction's copies come on top.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is less than 8 KiB.</exception>
    public long? MaxBytes
    {
        get => _maxBytes;
        set
        {
            if (value is { } bytes)
                ArgumentOutOfRangeException.ThrowIfLessThan(bytes, 2 * PackMeta.VolumeLengthMin);
            _maxBytes = value;
        }
    }

    /// <summary>
    /// Compacts in the background when at least this fraction of all volumes is garbage, and then those volumes of which at least
    /// this fraction is. The garbage is counted at the first put or delete, and whenever an eighth of a volume more has become
    /// garbage. Default null: only <see cref="PackStore.Compact"/> compacts. A failure changes nothing, is kept in
    /// <see cref="PackStore.CompactionFailure"/>, and the next count tries again.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is not from 0.01 to 1.</exception>
    public double? CompactAtGarbage
    {
        get => _compactAtGarbage;
        set
        {
            if (value is { } part)
            {
                ArgumentOutOfRangeException.ThrowIfLessThan(part, 0.01);
                ArgumentOutOfRangeException.ThrowIfGreaterThan(part, 1);
            }

            _compactAtGarbage = value;
        }
    }

    /// <summary>
    /// When puts and deletes return whose caller does not specify it; default <see cref="PackDurability.PageCache"/>.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is not a defined level.</exception>
    public PackDurability Durability
    {
        get => _durability;
        set
        {
            ThrowIfUndefined(value);
            _durability = value;
        }
    }

    /// <summary>
    /// After this many bytes of puts and deletes a thread of its own writes a checkpoint of the index, so opening after a crash
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
    /// <see cref="PackCorruptException"/>. With true it returns the value that is known, as if the damaged part had been empty.
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
    /// <exception cref="ArgumentOutOfRangeException">The value is above 0777, or lacks read or write for the owner.</exception>
    public UnixFileMode? UnixCreateMode
    {
        get => _unixCreateMode;
        set
        {
            if (value is { } mode && !CreateModes.IsUsable(mode))
                throw new ArgumentOutOfRangeException(nameof(UnixCreateMode), value, $"The mode must be {CreateModes.Expected}.");
            _unixCreateMode = value;
        }
    }

    /// <summary>
    /// Whether to open packs on network and FUSE file systems; default false. Their locks do not reliably keep a second writer
    /// out.
    /// </summary>
    public bool DangerouslyAllowFileSystem { get; set; }

    /// <summary>A level that is none would promise nothing, in silence.</summary>
    internal static void ThrowIfUndefined(PackDurability durability)
    {
        if (durability is not (PackDurability.PageCache or PackDurability.Group))
            throw new ArgumentOutOfRangeException(nameof(durability), durability, "Not a defined level.");
    }
}
