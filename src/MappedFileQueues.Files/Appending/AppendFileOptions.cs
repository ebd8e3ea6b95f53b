using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Files;

/// <summary>
/// How an <see cref="AppendFileStream"/> writes, flushes, allocates and rolls. Immutable. The stream's constructor checks it.
/// </summary>
public sealed record AppendFileOptions
{
    internal const int BlockLength = 4096;

    private const int BufferLengthMin = 2 * BlockLength;
    private const int BufferLengthMax = 256 * 1024 * 1024;
    private const long PreallocationLengthDefault = 16L * 1024 * 1024;

    private static readonly TimeSpan s_midnightLook = TimeSpan.FromMinutes(1);

    /// <summary>A timer takes 49.7 days, 2^32 - 2 ms, at most.</summary>
    internal static readonly TimeSpan TimerIntervalMax = TimeSpan.FromDays(49);

    /// <summary>
    /// Bytes in each of the two buffers, rounded up to whole blocks of 4,096. Default 1 MiB, from 8 KiB to 256 MiB. A write that
    /// is longer than half a buffer goes through the buffers in pieces; its bytes stay together all the same. Less than 1 MiB
    /// makes many short writes slower (a line of 100 bytes: 9 to 12 ns with 1 MiB and more, 31 with 256 KiB).
    /// </summary>
    public int BufferLength { get; init; } = 1024 * 1024;

    /// <summary>
    /// The longest time until the operating system gets what was written, and with <see cref="AppendDurability.Interval"/> until
    /// the disk has it. Default 1 s, at most 49 days. <see cref="Timeout.InfiniteTimeSpan"/>: only when a buffer is full, on
    /// Flush and on Dispose.
    /// </summary>
    public TimeSpan FlushInterval { get; init; } = TimeSpan.FromSeconds(1);

    /// <summary>What a power loss may take; default <see cref="AppendDurability.Interval"/>.</summary>
    public AppendDurability Durability { get; init; } = AppendDurability.Interval;

    /// <summary>How the file gets room ahead of its end; default <see cref="FilePreallocation.None"/>.</summary>
    public FilePreallocation Preallocation { get; init; } = FilePreallocation.None;

    /// <summary>
    /// Bytes of each step of <see cref="Preallocation"/>. Default 0: <see cref="RollLength"/> where that is set, else 16 MiB. The
    /// constructor takes the first step, the background writer the later ones.
    /// </summary>
    public long PreallocationLength { get; init; }

    /// <summary>
    /// What the file holds. Default <see cref="FileContent.Binary"/>: any bytes, and none is ever cut off. Options that leave
    /// zeros at the end of the file after a crash need <see cref="FileContent.Text"/> or <see cref="FileContent.Lines"/>.
    /// </summary>
    public FileContent Content { get; init; } = FileContent.Binary;

    /// <summary>
    /// Whether to continue an existing file; default true. False empties it at the opening. The log provider does that once for
    /// each path, when it opens the file for the first time.
    /// </summary>
    public bool Append { get; init; } = true;

    /// <summary>
    /// The length in bytes at which the stream begins the next file. Default 0: never. A single longer write gets a file of its
    /// own.
    /// </summary>
    public long RollLength { get; init; }

    /// <summary>
    /// The age at which the stream begins the next file, unless the file is empty. Default infinite. The age counts from when a
    /// stream began the file; for one that another program began, from its creation where the file system knows that, else from
    /// opening. The stream checks it each <see cref="FlushInterval"/>. Where that is infinite, it checks each RollInterval or 49
    /// days, whichever is less, and then also hands what was written to the system.
    /// </summary>
    public TimeSpan RollInterval { get; init; } = Timeout.InfiniteTimeSpan;

    /// <summary>
    /// Whether the stream also begins the next file when a new day begins in the local time zone of <see cref="TimeProvider"/>,
    /// unless the file is empty; default false. The stream checks it each <see cref="FlushInterval"/>, so writes of that time may
    /// still go to the file of the day before. Where that is infinite, it checks each minute, and then also hands what was
    /// written to the system. A file of an earlier day that is opened again is rolled at the first check.
    /// </summary>
    public bool RollAtMidnight { get; init; }

    /// <summary>
    /// How many closed files to keep beside the one being written; the oldest are deleted. Default null: all are kept. 0 keeps
    /// none.
    /// </summary>
    public int? RetainedFileCount { get; init; }

    /// <summary>
    /// How long to keep closed files after the last write to them, as the file system tells it. Older ones are deleted at the
    /// opening, when the stream rolls, and when the time has come. Default null: the age does not count. The file that is being
    /// written stays.
    /// </summary>
    public TimeSpan? RetainedAge { get; init; }

    /// <summary>
    /// Called with each file that the stream has rolled and keeps, in their order, by one thread of the pool at a time; default
    /// null. Writes do not wait for it, nor does Dispose. What it throws is dropped. When the process dies first it is not
    /// called. Closing the stream rolls nothing.
    /// </summary>
    public Action<RolledFile>? OnRolled { get; init; }

    /// <summary>
    /// Called with each error that does not keep the stream from writing, by one thread of the pool at a time; default null. A
    /// roll that cannot be done: the stream continues in the file, tries again each minute and each <see cref="RollLength"/>, and
    /// reports that once until a roll succeeds. A closed file that cannot be deleted: it stays, once for each file. What the
    /// handler throws is dropped. Other errors are an <see cref="AppendFileException"/>.
    /// </summary>
    public Action<Exception>? OnError { get; init; }

    /// <summary>
    /// Whether the oldest closed file, instead of being deleted, is renamed, overwritten with zeros in the background and written
    /// again. Its blocks are there already, so a flush need not wait for the file system's journal. Default false. Needs
    /// <see cref="RetainedFileCount"/>, <see cref="RollLength"/> and a <see cref="Content"/> of text. A file that has other names
    /// (hard links; Linux) is not reused: only the name is deleted.
    /// </summary>
    public bool ReuseOldFiles { get; init; }

    /// <summary>
    /// The permissions of new files, on Unix, whatever the umask: read and write bits for the files and the lock beside them, and
    /// the right to enter for their directory. Up to 0777, with read and write for the owner. Default null: the umask decides; a
    /// file gets no more than its directory grants, and others never get the right to write.
    /// </summary>
    public UnixFileMode? UnixCreateMode { get; init; }

    /// <summary>
    /// The clock of <see cref="FlushInterval"/>, <see cref="RollInterval"/> and <see cref="RetainedAge"/>, and the time zone of
    /// <see cref="RollAtMidnight"/>; default the system's. While it throws, the time that it told last counts.
    /// </summary>
    public TimeProvider TimeProvider { get; init; } = TimeProvider.System;

    internal bool RollsByLength => RollLength > 0;

    internal bool RollsByTime => RollAtMidnight || RollInterval != Timeout.InfiniteTimeSpan;

    internal bool Rolls => RollsByLength || RollsByTime;

    /// <summary>How often a timer looks for what is due; infinite when nothing ever is.</summary>
    internal TimeSpan TickInterval
    {
        get
        {
            if (FlushInterval != Timeout.InfiniteTimeSpan)
                return FlushInterval;
            TimeSpan shortest = TimerIntervalMax;
            if (RollInterval != Timeout.InfiniteTimeSpan && RollInterval < shortest)
                shortest = RollInterval;
            if (RollAtMidnight && s_midnightLook < shortest)
                shortest = s_midnightLook;
            if (RetainedAge < shortest)
                shortest = RetainedAge.Value;
            return RollsByTime || RetainedAge is not null ? shortest : Timeout.InfiniteTimeSpan;
        }
    }

    internal long PreallocationStep =>
        PreallocationLength > 0 ? PreallocationLength : RollsByLength ? RollLength : PreallocationLengthDefault;

    /// <summary>Whether bytes that were never written may be at the file's end while it is open.</summary>
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
        Check(RetainedAge is null || RetainedAge > TimeSpan.Zero, nameof(RetainedAge), RetainedAge!, "more than zero, or null");
        Check(UnixCreateMode is not { } mode || CreateModes.IsUsable(mode), nameof(UnixCreateMode), UnixCreateMode!,
            CreateModes.Expected);
        if (Content == FileContent.Binary && LeavesZeros)
        {
            throw new ArgumentException(
                $"After a crash, zeros that were written could not be told from unused room: Preallocation={Preallocation},"
                    + $" ReuseOldFiles={ReuseOldFiles}, Content=Binary. Set Content to Text or Lines if no write ends with a zero"
                    + " byte, else use FilePreallocation.None or Fallocate and no ReuseOldFiles.");
        }

        if (ReuseOldFiles && (RetainedFileCount is null || !RollsByLength))
            throw new ArgumentException("ReuseOldFiles needs RetainedFileCount and RollLength.");
        return this with
        {
            BufferLength = (BufferLength + BlockLength - 1) / BlockLength * BlockLength,
            TimeProvider = GuardedClock.Of(TimeProvider),
        };
    }

    private static void CheckTime(TimeSpan value, string name) =>
        Check(value > TimeSpan.Zero || value == Timeout.InfiniteTimeSpan, name, value, "more than zero, or infinite");

    private static void Check(bool isValid, string name, object value, string allowed)
    {
        if (!isValid)
            throw new ArgumentOutOfRangeException(name, value, $"{name} must be {allowed}.");
    }
}

/// <summary>When what was written to an <see cref="AppendFileStream"/> survives a power loss.</summary>
public enum AppendDurability
{
    /// <summary>When the operating system writes it; <see cref="AppendFileStream.Flush(bool)"/> forces that.</summary>
    PageCache,

    /// <summary>After <see cref="AppendFileOptions.FlushInterval"/> at the latest, and when the stream is closed.</summary>
    Interval,

    /// <summary>When the call that wrote it returns; concurrent calls share one flush.</summary>
    Group,
}

/// <summary>How a file gets blocks ahead of its content. docs/FILES.md lists what each way costs.</summary>
public enum FilePreallocation
{
    /// <summary>Not at all: the file system allocates blocks as they are written.</summary>
    None,

    /// <summary>
    /// Blocks after the end of the file (fallocate, FALLOC_FL_KEEP_SIZE). The file's length stays true, so a reader never sees a
    /// zero that was not written. Where the system has no such call: as None.
    /// </summary>
    Fallocate,

    /// <summary>
    /// The file is made longer by blocks that read as zeros (FALLOC_FL_ZERO_RANGE). Where the system has no such call: as
    /// <see cref="WrittenZeros"/>.
    /// </summary>
    ZeroRange,

    /// <summary>
    /// The stream writes zeros ahead: everything is written twice, and a flush has nothing but data to write.
    /// </summary>
    WrittenZeros,
}

/// <summary>What a file holds, which decides where it ends.</summary>
public enum FileContent
{
    /// <summary>
    /// Any bytes. All of the file's length was written, zeros at its end too. Room that reads as zeros is refused.
    /// </summary>
    Binary,

    /// <summary>
    /// No write ends with a zero byte. So zeros at the end of the file are room that a killed process or a power loss left, and
    /// opening cuts them off, whichever program wrote the file.
    /// </summary>
    Text,

    /// <summary>
    /// As <see cref="Text"/>, and each write is one or more whole lines. Where an existing file does not end with a line feed (a
    /// killed process, a full disk), opening writes one, so that the torn line stays a line of its own.
    /// </summary>
    Lines,
}
