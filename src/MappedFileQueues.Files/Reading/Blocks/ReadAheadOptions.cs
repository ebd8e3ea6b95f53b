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
    /// The length of one background read in bytes, rounded up to whole pages of 4096. Default 4 MiB. Large reads keep a
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
    /// How many blocks to read ahead of the one that the caller is in. Default 2. A stream holds at most
    /// (BlocksAhead + 1) x BlockSize bytes of memory, allocated as they are needed.
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
    /// Whether blocks that the system has in memory are mapped instead of copied: <see cref="ReadAheadStream.TryReadBlock"/>,
    /// ReadBlockAsync and CopyTo then run at the speed of memory, with the help of a second processor (1.5 times that of copying;
    /// docs/FILES.md). Default false, because a mapping is dangerous. When another program truncates the file while the caller
    /// has a block, a look into the block ends the process (SIGBUS). So does a span of a block that is used after the stream's
    /// next call, Dispose included. Use it for files that nobody truncates, and finish with blocks before the stream is disposed.
    /// What the disk cannot give is an exception all the same, unless the disk could give it just before and the system has
    /// dropped it from memory since. Bytes that are overwritten in place are seen at once.
    /// <para>Reads into a buffer are not faster. Each 256 MiB of the file cost three small objects. Ignored where the library
    /// cannot tell what is safe to look at: on the portable platform, before Linux 5.14, on file systems that do not say what
    /// they have in memory (tmpfs, FUSE). Not for <see cref="MappedFileLines"/>.</para>
    /// </summary>
    public bool MapBlocks { get; set; }

    /// <summary>
    /// Whether to wait for more at the end of the file (as `tail -f` does) instead of ending there. Default false. See
    /// <see cref="ReadAheadStream.StopFollowing"/>.
    /// </summary>
    public bool Follow { get; set; }

    /// <summary>
    /// Whether to continue when the open file was renamed and all of it was read: with the file that has the name now, after all
    /// that came in between; and from the beginning of a file that was truncated. As `tail -F`, but by the inode, and no line is
    /// lost or comes twice. Default false: reading stays in the file that was opened. Known are the closed files of <see
    /// cref="AppendFileStream"/> and those of logrotate (`app.log.1`, `app.log-20260131`); docs/FILES.md says what no reader can
    /// know. With <see cref="Follow"/> a missing file is waited for. Linux only, and not with <see cref="MapBlocks"/>.
    /// </summary>
    public bool FollowRolls { get; set; }

    /// <summary>
    /// Where to begin: the <see cref="ReadAheadStream.FilePosition"/> or <see cref="MappedFileLines.FilePosition"/> of an earlier
    /// reading of this name. The file is found by its inode in the folder of the path, whatever its name is now; a missing one is
    /// a <see cref="QueueNotFoundException"/>. Default null: the beginning of the file that has the name. Linux only.
    /// </summary>
    public FilePosition? ResumeAt { get; set; }

    /// <summary>
    /// The longest step between two looks at the file while <see cref="Follow"/> waits. The steps grow from 1 ms after the last
    /// growth of the file to this. Default 100 ms. Nothing looks while no call waits.
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
    /// The longest line in bytes, without its end. Default 256 MiB. A line that is longer than a block is gathered in memory, up
    /// to this length; a longer one is a <see cref="LineTooLongException"/>.
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
    /// reading. In the middle of a line, the rest of that line comes first.
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
