namespace MappedFileQueues.Files;

/// <summary>
/// How an <see cref="AppendFileStream"/> writes, flushes, allocates and rolls. Immutable; checked when a stream is made.
/// </summary>
public sealed record AppendFileOptions
{
    internal const int BlockLength = 4096;

    private const int BufferLengthMin = 2 * BlockLength;
    private const int BufferLengthMax = 256 * 1024 * 1024;
    private const long PreallocationLengthDefault = 16L * 1024 * 1024;

    /// <summary>A timer takes 49.7 days, 2^32 - 2 ms, at most.</summary>
    internal static readonly TimeSpan TimerIntervalMax = TimeSpan.FromDays(49);

    /// <summary>
    /// Bytes in each of the two buffers, rounded up to whole blocks of 4,096; default 1 MiB, from 8 KiB to 256 MiB. A write
    /// that is longer than half of that goes through them in pieces, and is kept whole all the same. Less than 1 MiB makes many
    /// short writes slower (a line of 100 bytes 9 to 12 ns with 1 MiB and more, 31 with 256 KiB; docs/BENCHMARKS.md).
    /// </summary>
    public int BufferLength { get; init; } = 1024 * 1024;

    /// <summary>
    /// After this at the latest, what was written is handed to the operating system, and with
    /// <see cref="AppendDurability.Interval"/> flushed to the disk; default 1 s, at most 49 days.
    /// <see cref="Timeout.InfiniteTimeSpan"/>: only when a buffer is full, on Flush and on Dispose.
    /// </summary>
    public TimeSpan FlushInterval { get; init; } = TimeSpan.FromSeconds(1);

    /// <summary>What a power cut may take; default <see cref="AppendDurability.Interval"/>.</summary>
    public AppendDurability Durability { get; init; } = AppendDurability.Interval;

    /// <summary>How room is given to the file ahead of its end; default <see cref="FilePreallocation.None"/>.</summary>
    public FilePreallocation Preallocation { get; init; } = FilePreallocation.None;

    /// <summary>
    /// Bytes of each step of <see cref="Preallocation"/>; default 0: <see cref="RollLength"/> where that is set, else 16 MiB. The
    /// first step is taken when the stream is made, later ones by the background writer.
    /// </summary>
    public long PreallocationLength { get; init; }

    /// <summary>
    /// What the file holds; default <see cref="FileContent.Binary"/>: any bytes, of which none is ever cut off. What leaves zeros
    /// at the end of the file in a crash needs <see cref="FileContent.Text"/> or <see cref="FileContent.Lines"/>.
    /// </summary>
    public FileContent Content { get; init; } = FileContent.Binary;

    /// <summary>
    /// Whether an existing file is continued; default true. False empties it.
    /// </summary>
    public bool Append { get; init; } = true;

    /// <summary>
    /// The longest a file becomes, in bytes, before the next one is begun; default 0, never. A single write that is longer has a
    /// file of its own.
    /// </summary>
    public long RollLength { get; init; }

    /// <summary>
    /// The oldest a file becomes before the next one is begun, unless it is empty; default infinite. Counted from the file's
    /// creation where the file system knows it and <see cref="ReuseOldFiles"/> is off, else from opening. Looked at each
    /// <see cref="FlushInterval"/>; where that is infinite, each RollInterval or 49 days, whichever is less, and what was written
    /// is handed to the system then too.
    /// </summary>
    public TimeSpan RollInterval { get; init; } = Timeout.InfiniteTimeSpan;

    /// <summary>How many closed files are kept beside the one being written; the oldest go. Default null: all.</summary>
    public int? RetainedFileCount { get; init; }

    /// <summary>
    /// The oldest closed file, instead of being deleted, is renamed, overwritten with zeros in the background and written again:
    /// its blocks are there already, so that a flush need not wait for the file system's journal. Needs
    /// <see cref="RetainedFileCount"/>, <see cref="RollLength"/> and a <see cref="Content"/> of text; default false. A file that
    /// has other names (hard links; Linux) is let go of instead.
    /// </summary>
    public bool ReuseOldFiles { get; init; }

    /// <summary>
    /// The permissions of what is made, on Unix, whatever the umask: read and write bits for the files and the lock beside them,
    /// and the right to enter for the directory of these. Default null: the umask counts; a file gets no more than its directory
    /// grants, and never the right of others to write.
    /// </summary>
    public UnixFileMode? UnixCreateMode { get; init; }

    /// <summary>The clock of <see cref="FlushInterval"/> and <see cref="RollInterval"/>; default the system's.</summary>
    public TimeProvider TimeProvider { get; init; } = TimeProvider.System;

    internal bool RollsByLength => RollLength > 0;

    internal bool Rolls => RollsByLength || RollInterval != Timeout.InfiniteTimeSpan;

    internal long PreallocationStep =>
        PreallocationLength > 0 ? PreallocationLength : RollsByLength ? RollLength : PreallocationLengthDefault;

    /// <summary>Whether bytes that were never written may stand at the file's end while it is open.</summary>
    internal bool LeavesZeros =>
        ReuseOldFiles || Preallocation is FilePreallocation.ZeroRange or FilePreallocation.WrittenZeros;

    internal AppendFileOptions Checked()
    {
        ArgumentNullException.ThrowIfNull(TimeProvider);
        Check(BufferLength is >= BufferLengthMin and <= BufferLengthMax, nameof(BufferLength), BufferLength,
            $"from {BufferLengthMin} to {BufferLengthMax}");
        CheckTime(FlushInterval, nameof(FlushInterval));
        Check(FlushInterval <= TimerIntervalMax, nameof(FlushInterval), FlushInterval, "49 days at most, or infinite");
        CheckTime(RollInterval, nameof(RollInterval));
        Check(Enum.IsDefined(Durability), nameof(Durability), Durability, "a defined level");
        Check(Enum.IsDefined(Preallocation), nameof(Preallocation), Preallocation, "a defined way");
        Check(Enum.IsDefined(Content), nameof(Content), Content, "a defined kind");
        Check(PreallocationLength >= 0, nameof(PreallocationLength), PreallocationLength, "0 or more");
        Check(RollLength >= 0, nameof(RollLength), RollLength, "0 or more");
        Check(RetainedFileCount is null or >= 0, nameof(RetainedFileCount), RetainedFileCount!, "0 or more, or null");
        if (Content == FileContent.Binary && LeavesZeros)
        {
            throw new ArgumentException(
                $"After a crash nobody could tell zeros that were written from room that was not: Preallocation={Preallocation},"
                    + $" ReuseOldFiles={ReuseOldFiles}, Content=Binary. Set Content to Text or Lines if no write ends with a zero"
                    + " byte, else use FilePreallocation.None or Fallocate and no ReuseOldFiles.");
        }

        if (ReuseOldFiles && (RetainedFileCount is null || !RollsByLength))
            throw new ArgumentException("ReuseOldFiles needs RetainedFileCount and RollLength.");
        return this with { BufferLength = (BufferLength + BlockLength - 1) / BlockLength * BlockLength };
    }

    private static void CheckTime(TimeSpan value, string name) =>
        Check(value > TimeSpan.Zero || value == Timeout.InfiniteTimeSpan, name, value, "more than zero, or infinite");

    private static void Check(bool isValid, string name, object value, string allowed)
    {
        if (!isValid)
            throw new ArgumentOutOfRangeException(name, value, $"{name} must be {allowed}.");
    }
}

/// <summary>When what was written to an <see cref="AppendFileStream"/> survives a power cut.</summary>
public enum AppendDurability
{
    /// <summary>When the system writes it; <see cref="AppendFileStream.Flush(bool)"/> can ask for it.</summary>
    PageCache,

    /// <summary>At the latest <see cref="AppendFileOptions.FlushInterval"/> later, and when the stream is closed.</summary>
    Interval,

    /// <summary>When the call that wrote it returns; concurrent calls share one flush.</summary>
    Group,
}

/// <summary>How a file gets its blocks ahead of what is written. docs/FILES.md has a table of what each costs.</summary>
public enum FilePreallocation
{
    /// <summary>Not at all: the file system gives blocks as they are written.</summary>
    None,

    /// <summary>
    /// Blocks behind the end of the file (fallocate, FALLOC_FL_KEEP_SIZE); the file's length stays true, so it never shows a zero
    /// that was not written. Where the system has no such call: as None.
    /// </summary>
    Fallocate,

    /// <summary>
    /// The file is made longer by blocks that read as zeros (FALLOC_FL_ZERO_RANGE). Where the system has no such call: as
    /// <see cref="WrittenZeros"/>.
    /// </summary>
    ZeroRange,

    /// <summary>
    /// Zeros are really written ahead: everything is written twice, and a flush has nothing but data to write.
    /// </summary>
    WrittenZeros,
}

/// <summary>What a file holds, which says where it ends.</summary>
public enum FileContent
{
    /// <summary>
    /// Any bytes: the file's length is what was written, zeros at its end too. Room that reads as zeros is refused.
    /// </summary>
    Binary,

    /// <summary>
    /// No write ends with a zero byte: zeros at the end of the file are room that a killed process or a power cut left, and are
    /// cut off when it is opened, whoever wrote it.
    /// </summary>
    Text,

    /// <summary>
    /// As <see cref="Text"/>, and each write is one or more whole lines. Where an existing file does not end with a line feed (a
    /// killed process, a full disk), one is written when it is opened, so that the torn line stays a line of its own.
    /// </summary>
    Lines,
}
