namespace MappedFileQueues.Files;

/// <summary>How a <see cref="ReadAheadStream"/> reads; copied when the stream is opened.</summary>
public class ReadAheadOptions
{
    /// <summary>The smallest <see cref="BlockSize"/>: one page.</summary>
    public const int BlockSizeMin = 4096;

    /// <summary>The largest <see cref="BlockSize"/>.</summary>
    public const int BlockSizeMax = 256 * 1024 * 1024;

    /// <summary>The largest <see cref="BlocksAhead"/>.</summary>
    public const int BlocksAheadMax = 64;

    /// <summary>
    /// Bytes that one background read asks the system for; rounded up to whole pages of 4096. Default 4 MiB. Large reads keep a
    /// disk busy even where the system itself reads little ahead (128 KiB by default on Linux). After opening and after a seek
    /// reads begin at 64 KiB and grow to this, so that small files cost little.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">
    /// Less than <see cref="BlockSizeMin"/> or more than <see cref="BlockSizeMax"/>.
    /// </exception>
    public int BlockSize
    {
        get;
        set
        {
            ArgumentOutOfRangeException.ThrowIfLessThan(value, BlockSizeMin);
            ArgumentOutOfRangeException.ThrowIfGreaterThan(value, BlockSizeMax);
            field = (value + BlockSizeMin - 1) & -BlockSizeMin;
        }
    } = 4 * 1024 * 1024;

    /// <summary>
    /// How many blocks are read ahead of the one that the caller is in. Default 2. A stream holds at most
    /// (BlocksAhead + 1) x BlockSize bytes of memory, made as they are needed.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">Less than 1 or more than <see cref="BlocksAheadMax"/>.</exception>
    public int BlocksAhead
    {
        get;
        set
        {
            ArgumentOutOfRangeException.ThrowIfLessThan(value, 1);
            ArgumentOutOfRangeException.ThrowIfGreaterThan(value, BlocksAheadMax);
            field = value;
        }
    } = 2;

    /// <summary>
    /// Bytes beyond the blocks under way that the system is asked to fetch (POSIX_FADV_WILLNEED). Default 0: the file is only
    /// announced as one that is read from front to back (POSIX_FADV_SEQUENTIAL), because asking made cold reading slower on
    /// the disks measured (docs/FILES.md). Ignored on the portable platform, and with <see cref="BypassCache"/>.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">Negative.</exception>
    public long AskAhead
    {
        get;
        set
        {
            ArgumentOutOfRangeException.ThrowIfNegative(value);
            field = value;
        }
    }

    /// <summary>
    /// Whether blocks that the system has in memory are handed out where they lie there, by a mapping, instead of being copied:
    /// <see cref="ReadAheadStream.TryReadBlock"/>, ReadBlockAsync and CopyTo then run at the speed of memory, with the help of a
    /// second processor (1.5 times that of copying; docs/FILES.md). Default false, because of what a mapping cannot do: when
    /// somebody truncates the file while a block is out, looking into it ends the process (SIGBUS), as does using a span of
    /// a block after the stream's next call, Dispose included. So it is for files that nobody truncates and blocks that are
    /// done with before the stream is disposed. What the disk cannot give is an exception in any case, unless it could
    /// give it just before and the system dropped it from memory since. What is overwritten in place is seen at once.
    /// <para>Reads into a buffer are not faster. Each 256 MiB of the file cost three small objects. Ignored where there is no
    /// telling what is safe to look at: on the portable platform, before Linux 5.14, on file systems that do not say what they
    /// have in memory (tmpfs, FUSE). Not for <see cref="MappedFileLines"/>.</para>
    /// </summary>
    public bool MapBlocks { get; set; }

    /// <summary>
    /// Whether what the system does not have in memory is read straight from the disk into the blocks (O_DIRECT), and not kept
    /// in the system's memory as well. Default false: what was read once is in memory for the next reader. True is for files
    /// that are read once, or are larger than the memory: nothing else is pushed out of it, and cold reading is faster (1.1 to 4
    /// times; docs/FILES.md). What is in memory already is taken from there, as far as the system tells: Linux 6.5 and later,
    /// some of them only who may write the file. Memory of blocks of 2 MiB and more is asked to be of large pages.
    /// <para>Every read goes by the blocks then, long ones too; what lies before the next multiple of 4096 after a seek is read
    /// as without it. <see cref="AskAhead"/> is ignored. Where the file system cannot, and on the portable platform, files are
    /// read as without it.</para>
    /// </summary>
    public bool BypassCache { get; set; }

    /// <summary>
    /// Whether the end of the file is waited at for more (as `tail -f` does) instead of being the end. Default false. See
    /// <see cref="ReadAheadStream.StopFollowing"/>.
    /// </summary>
    public bool Follow { get; set; }

    /// <summary>
    /// Whether reading goes on in the file that bears the name by then when the open one was renamed and all of it was read, and
    /// from its beginning when it was truncated: as `tail -F`, but by the inode, through all the files that came in between, and
    /// without a line that is lost or comes twice. Default false: reading stays in the file that was opened. It knows the closed
    /// files of <see cref="AppendFileStream"/> and those of logrotate (`app.log.1`, `app.log-20260131`); docs/FILES.md says what
    /// nobody can know. With <see cref="Follow"/> a file that is not there is waited for. Linux only, and not with <see
    /// cref="MapBlocks"/>.
    /// </summary>
    public bool FollowRolls { get; set; }

    /// <summary>
    /// Where to begin: the <see cref="ReadAheadStream.FilePosition"/> or <see cref="MappedFileLines.FilePosition"/> of an earlier
    /// reading of this name. The file is looked for by its inode in the folder of the path, whatever it is called by now; one
    /// that is gone is a <see cref="QueueNotFoundException"/>. Default null: the beginning of the file that bears the name.
    /// Linux only.
    /// </summary>
    public FilePosition? ResumeAt { get; set; }

    /// <summary>
    /// While <see cref="Follow"/> waits, the file is looked at in growing steps, from 1 ms after the last growth up to this.
    /// Default 100 ms. Nobody looks while nobody waits.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">Less than 1 ms or more than an hour.</exception>
    public TimeSpan FollowInterval
    {
        get;
        set
        {
            ArgumentOutOfRangeException.ThrowIfLessThan(value, TimeSpan.FromMilliseconds(1));
            ArgumentOutOfRangeException.ThrowIfGreaterThan(value, TimeSpan.FromHours(1));
            field = value;
        }
    } = TimeSpan.FromMilliseconds(100);
}

/// <summary>How <see cref="MappedFileLines"/> reads; copied when the file is opened.</summary>
public sealed class MappedFileLinesOptions : ReadAheadOptions
{
    /// <summary>The largest <see cref="LineLengthMax"/>.</summary>
    public const int LineLengthLimit = 1024 * 1024 * 1024;

    /// <summary>
    /// The longest line in bytes, its end not counted. Default 256 MiB. A line that is longer than a block is gathered in memory
    /// up to this; a longer one is a <see cref="LineTooLongException"/>.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">Less than 1 or more than <see cref="LineLengthLimit"/>.</exception>
    public int LineLengthMax
    {
        get;
        set
        {
            ArgumentOutOfRangeException.ThrowIfLessThan(value, 1);
            ArgumentOutOfRangeException.ThrowIfGreaterThan(value, LineLengthLimit);
            field = value;
        }
    } = 256 * 1024 * 1024;

    /// <summary>
    /// The position in bytes of the first line: 0, the default, or the <see cref="MappedFileLines.Position"/> of an earlier
    /// reading that is to go on. In the middle of a line the rest of that line comes first.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">Negative.</exception>
    public long StartPosition
    {
        get;
        set
        {
            ArgumentOutOfRangeException.ThrowIfNegative(value);
            field = value;
        }
    }
}
