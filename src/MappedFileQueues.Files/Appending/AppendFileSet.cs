using System.Collections.Concurrent;
using MappedFileQueues.Files.Names;
using MappedFileQueues.Files.Rolling;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Files.Appending;

/// <summary>
/// The file that a stream writes, the closed ones behind it, and the next one, which a background thread prepares. One thread at
/// a time uses it: the one that has the stream's draining role.
/// <para>A roll, and what is there when the process dies behind each step: (1) the file is cut to its true length and, where the
/// level says so, flushed: as before, without zeros behind. (2) It gets its number: no current file; opening makes one. (3) The
/// next file, <see cref="RolledNames.Next"/> until now, gets the name. (4) With retention the oldest file is deleted, or becomes
/// the next one, which is zeroed before it is used; an unfinished next file is deleted by the next opening, and nothing ever
/// reads it. Where a step of these cannot be done, the file gets its name back and is continued, and the roll is tried again
/// later. A closed file that cannot be deleted stays. Neither is a reason to write nothing any more: both are reported.</para>
/// <para>Two locks keep a second stream away. The one beside the file covers the name and all that is rolled from it; symbolic
/// links are followed first, so that each file has one such name. The other is on the file itself, against a stream that comes
/// through a hard link.</para>
/// </summary>
internal sealed class AppendFileSet : IDisposable
{
    /// <summary>How soon a roll that could not be done is tried again.</summary>
    private static readonly TimeSpan s_rollRetry = TimeSpan.FromMinutes(1);

    private readonly AppendFileOptions _options;
    private readonly HeldDirectory _directory;
    private readonly PlatformLock _lock;
    private readonly string _name;
    private readonly string _nextName;
    private readonly RolledFiles _rolled;
    private readonly RoomMark _room;
    private readonly List<string> _unsynced = [];
    private Task<AppendFile>? _next;
    private string? _spare;
    private readonly Notices<RolledFile>? _notices;
    private readonly Notices<Exception>? _errors;

    /// <summary>
    /// Closed files that are to go, and could not be deleted yet. The thread that makes the next file adds to them, too.
    /// </summary>
    private readonly ConcurrentQueue<string> _overdue = [];

    /// <summary>Closed files whose age cannot be asked for.</summary>
    private readonly HashSet<string> _ageless = new(StringComparer.Ordinal);
    private bool _areEntriesDirty;
    private DateTimeOffset _begun;
    private long _dueTicks;

    /// <summary>What the clock said when it was looked at last; threads with the role or the gate write it.</summary>
    private long _clockTicks;

    /// <summary>Whether the clock was put back since the due time was found. As above.</summary>
    private volatile bool _wasClockPutBack;
    private long _expiryTicks = long.MaxValue;

    private AppendFileSet(HeldDirectory directory, PlatformLock ownership, string name, AppendFileOptions options)
    {
        (_directory, _lock, _name, _options) = (directory, ownership, name, options);
        RolledNames names = new(name);
        _nextName = names.Next;
        _rolled = new RolledFiles(directory, names);
        _room = new RoomMark(directory, name);
        _notices = options.OnRolled is { } handler ? new Notices<RolledFile>(handler) : null;
        _errors = options.OnError is { } errorHandler ? new Notices<Exception>(errorHandler) : null;
        Current = null!;
    }

    /// <summary>The file that is written.</summary>
    public AppendFile Current { get; private set; }

    /// <summary>The length that the current file had when it was opened.</summary>
    public long OpenedLength { get; private set; }

    /// <summary>Whether the last roll could not be done, so that the file is longer or older than it should be.</summary>
    public bool IsRollPutOff { get; private set; }

    /// <summary>When the oldest closed file has been kept long enough, in ticks of UTC; may be read by any thread.</summary>
    public long ExpiryTicks => Volatile.Read(ref _expiryTicks);

    private bool IsDurable => _options.Durability != AppendDurability.PageCache;

    /// <summary>Opens or makes the file, and takes the lock that keeps a second stream away.</summary>
    public static AppendFileSet Open(string path, AppendFileOptions options)
    {
        string name = Path.GetFileName(path);
        HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(
            Path.GetDirectoryName(path)!, create: true, options.UnixCreateMode, ownerOnly: false)!;
        PlatformLock? ownership = null;
        AppendFileSet? files = null;
        try
        {
            // What is no file (a device) is refused before anything is made beside it.
            directory.Open(name, FileOpening.Read)?.Dispose();
            string lockName = name + ".lock";
            ownership = LockWait.TryTake(directory, lockName, LockKind.Exclusive, LockWait.Passing) ?? throw directory.InUse(
                lockName, "Another stream appends to this file", "Close it, or write to another file.", $"path={path}");
            files = new AppendFileSet(directory, ownership, name, options);
            files.OpenFirst();
            return files;
        }
        catch
        {
            files?.Current?.Dispose();
            ownership?.Dispose();
            directory.Dispose();
            throw;
        }
    }

    /// <summary>
    /// Throws if the folder was removed with the file in it (`rm -rf logs`), whether or not another one has its path since. No
    /// roll would end that: the next file would have to be made in the removed folder. A file that was removed alone ends with
    /// the next roll, and a folder that was moved keeps its files.
    /// </summary>
    public void ThrowIfRemoved()
    {
        if (_directory.Identify(_name) is not null || _directory.IsStillInPlace)
            return;
        throw new QueueDiskException(
            $"The folder was removed while the file was written: path={Current.Path}. Open it again, which makes both.",
            DiskErrors.ENOENT,
            Current.Path);
    }

    /// <summary>fdatasync of everything that is written so far.</summary>
    public void Sync()
    {
        if (PlantedFaults.Has(PlantedFault.AppendNotFlushed))
            return;
        foreach (string name in _unsynced)
        {
            // Missing: the retention has deleted it meanwhile.
            using PlatformFile? file = _directory.Open(name, FileOpening.ReadWrite);
            file?.Sync();
        }

        _unsynced.Clear();
        Current.Sync();
        if (_areEntriesDirty)
            _directory.FlushEntries("");
        _areEntriesDirty = false;
    }

    /// <summary>
    /// Ends the current file and begins the next one. Where the system refuses that, the current one is continued. A flush that
    /// fails is another thing: it is an error of the stream, as any failed flush is.
    /// </summary>
    public void Roll()
    {
        Current.Cut();
        if (IsDurable)
            Current.Sync();
        long length = Current.End;
        string? rolled;
        try
        {
            // Missing: another program has moved or deleted it while it was written, which it may.
            rolled = _directory.Identify(_name) is null ? null : _rolled.Add(_name);
        }
        catch (IOException error)
        {
            PutRollOff(error);
            return;
        }

        // Without a journal a cut may do the second renaming and not the first, which would take this file away.
        if (rolled is not null && IsDurable)
            _directory.FlushEntries("");

        // Before the next file needs its room. But until that has the name, this one is needed.
        string? spare = null;
        RetainNewest(countMin: 1, ref spare);
        if (!TryBeginFile(rolled, spare))
            return;
        RetainNewest(countMin: 0, ref spare);
        _areEntriesDirty = true;
        if (rolled is not null && !IsDurable && _rolled.Count > 0)
            _unsynced.Add(rolled);
        if (IsDurable)
            _directory.FlushEntries("");
        Announce(rolled, length);
        IsRollPutOff = false;
        _begun = ReadClock();
        BeginDay();
        NoteExpiry(rolled);
        BeginNext(spare);
    }

    /// <summary>
    /// From any thread: whether the current file is older than a file may become. Also when the clock was put back: then
    /// <see cref="LowersDue"/> finds out.
    /// </summary>
    public bool IsRollDue()
    {
        long due = Volatile.Read(ref _dueTicks);
        if (due == long.MaxValue)
            return false;
        long before = Volatile.Read(ref _clockTicks);
        long now = ReadClock().UtcTicks;
        if (now < before)
            _wasClockPutBack = true;
        return _wasClockPutBack || now >= due;
    }

    /// <summary>
    /// True when the clock was put back. A clock that was a year ahead has told a due time that is a year ahead: from now on a
    /// file that was begun in the future is one that was begun now.
    /// </summary>
    public bool LowersDue()
    {
        if (!_wasClockPutBack)
            return false;
        _wasClockPutBack = false;
        DateTimeOffset now = ReadClock();
        if (_begun > now)
            _begun = now;
        long due = IsRollPutOff ? (now + s_rollRetry).UtcTicks : DueAfter(_begun, now);
        Volatile.Write(ref _dueTicks, Math.Min(Volatile.Read(ref _dueTicks), due));
        return true;
    }

    /// <summary>The current file is one of today: it was begun now, or nothing is in it yet.</summary>
    public void BeginDay() => Volatile.Write(ref _dueTicks, DueAfter(_begun, ReadClock()));

    /// <summary>
    /// Deletes the closed files that have been kept long enough. Each has its own time: a clock that was ahead may have left one
    /// from the future before others.
    /// </summary>
    public void DeleteExpired()
    {
        if (_options.RetainedAge is not { } age)
            return;
        RetryDeletions();
        long now = _options.TimeProvider.GetUtcNow().UtcTicks;
        long next = long.MaxValue;
        foreach (string name in _rolled.Names)
        {
            long expiry = ExpiryOf(name, age);
            if (expiry > now)
            {
                next = Math.Min(next, expiry);
                continue;
            }

            _rolled.Remove(name);
            Delete(name);
        }

        Volatile.Write(ref _expiryTicks, next);
    }

    /// <summary>Ends the current file behind its last byte; best effort after a failure, whose error is thrown already.</summary>
    public void End(bool isFailed)
    {
        try
        {
            Current.Cut();
            if (!_options.LeavesZeros)
                return;
            _room.Clear();
            _areEntriesDirty = true;
        }
        catch (Exception error) when (isFailed && error is QueueDiskException or ObjectDisposedException)
        {
            // A roll that failed may have closed it.
        }
    }

    /// <summary>Closes everything; an unused next file goes.</summary>
    public void Dispose()
    {
        Current.Dispose();
        try
        {
            _next?.GetAwaiter().GetResult().Dispose();
            _ = _directory.Delete(_nextName);
        }
        catch (Exception)
        {
            // Nothing was written to it, and the next opening deletes what is left of it.
        }

        _lock.Dispose();
        _directory.Dispose();
    }

    private void OpenFirst()
    {
        _ = TryDelete(_nextName);
        bool isThere = _directory.Identify(_name) is not null;
        PlatformFile file = _directory.Open(_name, FileOpening.ReadWriteOrCreate)!;
        DateTimeOffset lastWritten;
        try
        {
            TakeAlone(file);
            OpenedLength = _options.Append ? AppendFile.FindEnd(file, RoomStart(file)) : 0;
            if (PlantedFaults.Has(PlantedFault.ZeroTailKept))
                OpenedLength = file.Length;
            lastWritten = file.LastWritten;
            if (file.Length != OpenedLength)
                file.SetLength(OpenedLength);
            OpenedLength = LineEnd.Append(file, _options, OpenedLength);
        }
        catch
        {
            file.Dispose();
            throw;
        }

        const long Block = AppendFileOptions.BlockLength;
        Current = new AppendFile(file, _options, (OpenedLength + Block - 1) / Block * Block, OpenedLength);
        if (_options.LeavesZeros)
            Current.MarkRoom(_room, IsDurable);
        else
            _room.Clear();
        Current.MakeRoom(OpenedLength + 1);
        DateTimeOffset now = ReadClock();
        DateTimeOffset? birth = isThere && OpenedLength > 0 ? BirthOf(file, now) : now;
        _begun = birth ?? now;

        // What was written on an earlier day belongs to it, even where the birth is unknown.
        Volatile.Write(ref _dueTicks, DueAfter(_begun, birth ?? (lastWritten < now ? lastWritten : now)));
        DeleteExpired();

        // Also when the file was there: the process that created or renamed it may have been killed before it flushed that.
        _areEntriesDirty = true;
        if (_options.Rolls)
            BeginNext(null);
    }

    /// <summary>
    /// Not on network file systems, where it would keep readers away: there the lock beside the file has to do.
    /// </summary>
    private void TakeAlone(PlatformFile file)
    {
        if (_directory.UnsafeFileSystem is null && !file.TryTakeAlone())
        {
            throw new QueueInUseException($"Another stream appends to this file under another name: path={file.Path}. Close it, "
                + "or write to another file.");
        }
    }

    /// <summary>
    /// Where zeros at the end of the opened file may be room: anywhere in a text, else where the mark of a stream that was not
    /// closed says so.
    /// </summary>
    private long? RoomStart(PlatformFile file) => _options.Content == FileContent.Binary ? _room.Find(file) : 0;

    /// <summary>Null where it is unknown: a file that is used again was born long before its content.</summary>
    private DateTimeOffset? BirthOf(PlatformFile file, DateTimeOffset now) =>
        !_options.ReuseOldFiles && file.Birth is { } birth ? (birth < now ? birth : now) : null;

    /// <summary>When a file becomes too old.</summary>
    private long DueAfter(DateTimeOffset begun, DateTimeOffset ofDay)
    {
        long due = long.MaxValue;
        if (_options.RollInterval != Timeout.InfiniteTimeSpan && _options.RollInterval.Ticks < long.MaxValue - begun.UtcTicks)
            due = begun.UtcTicks + _options.RollInterval.Ticks;
        return _options.RollAtMidnight
            ? Math.Min(due, Midnight.After(ofDay, _options.TimeProvider.LocalTimeZone).UtcTicks)
            : due;
    }

    private DateTimeOffset ReadClock()
    {
        DateTimeOffset now = _options.TimeProvider.GetUtcNow();
        Volatile.Write(ref _clockTicks, now.UtcTicks);
        return now;
    }

    /// <summary>
    /// When a closed file has been kept long enough; at once if it is gone, and never if that cannot be found out.
    /// </summary>
    private long ExpiryOf(string name, TimeSpan age)
    {
        try
        {
            using PlatformFile? file = _directory.Open(name, FileOpening.Read);
            long last = file?.LastWritten.UtcTicks ?? 0;
            return age.Ticks < long.MaxValue - last ? last + age.Ticks : long.MaxValue;
        }
        catch (QueueDiskException error)
        {
            if (_ageless.Add(name))
                _errors?.Add(error);
            return long.MaxValue;
        }
    }

    /// <summary>One more file has to be deleted some day, or some are at once.</summary>
    private void NoteExpiry(string? rolled)
    {
        if (_options.RetainedAge is not { } age)
            return;
        if (rolled is not null)
            Volatile.Write(ref _expiryTicks, Math.Min(_expiryTicks, ExpiryOf(rolled, age)));
        if (_expiryTicks <= _options.TimeProvider.GetUtcNow().UtcTicks)
            DeleteExpired();
    }

    /// <summary>
    /// Gives the next file the name. Where that cannot be done, gives the name back to the current one and continues it; throws
    /// when that cannot be done either.
    /// </summary>
    private bool TryBeginFile(string? rolled, string? spare)
    {
        AppendFile? next = null;
        try
        {
            next = TakeNext();
            if (_options.LeavesZeros)
                next.MarkRoom(_room, IsDurable);
            TakeName();
        }
        catch (IOException error)
        {
            next?.Dispose();
            if (!TryTakeNameBack(rolled))
                throw;

            if (spare is not null)
                _overdue.Enqueue(spare);
            if (_spare is not null)
                _overdue.Enqueue(_spare);
            _spare = null;
            PutRollOff(error);
            return false;
        }

        Current.Dispose();
        Current = next;
        return true;
    }

    /// <summary>
    /// Between the two renamings another program may have made a file of this name. Nothing of it may be lost: it is kept like
    /// one that was rolled.
    /// </summary>
    private void TakeName()
    {
        const int TriesMax = 10;
        for (int tries = 0; !_directory.RenameWithoutReplacing(_nextName, _name); tries++)
        {
            if (tries == TriesMax)
            {
                throw DiskErrors.Make(
                    "Cannot begin the next file", Path.Combine(_directory.Path, _name), DiskErrors.EEXIST, "File exists");
            }

            if (_directory.Identify(_name) is not null)
                _ = _rolled.Add(_name);
        }
    }

    private bool TryTakeNameBack(string? rolled)
    {
        try
        {
            if (rolled is not null && !_directory.RenameWithoutReplacing(rolled, _name))
                return false;
            if (rolled is not null)
                _rolled.Remove(rolled);
        }
        catch (IOException)
        {
            // The caller has an error already.
            return false;
        }

        try
        {
            if (_options.LeavesZeros)
                Current.MarkRoom(_room, IsDurable);
        }
        catch (IOException)
        {
            // Without the mark zeros may stay at the end after a crash, which is no loss.
        }

        return true;
    }

    /// <summary>Continues the current file; says so once, until a roll succeeds.</summary>
    private void PutRollOff(IOException error)
    {
        Current.Continue();
        _areEntriesDirty = true;
        Volatile.Write(ref _dueTicks, (ReadClock() + s_rollRetry).UtcTicks);
        if (!IsRollPutOff)
        {
            _errors?.Add(new QueueDiskException(
                $"Cannot begin the next file, so this one is continued, and the roll is tried again: path={Current.Path}."
                    + $" {error.Message}",
                (error as QueueDiskException)?.Errno ?? 0,
                Current.Path,
                error));
        }

        IsRollPutOff = true;
    }

    private void Announce(string? rolled, long length)
    {
        if (_notices is null || rolled is null || _rolled.Count == 0)
            return;
        _notices.Add(new RolledFile
        {
            Path = Path.Combine(_directory.Path, rolled),
            Length = length,
            Begun = _begun,
            Ended = _options.TimeProvider.GetUtcNow(),
        });
    }

    private void Delete(string rolled)
    {
        _unsynced.Remove(rolled);
        if (!TryDelete(rolled))
            _overdue.Enqueue(rolled);
        _areEntriesDirty = true;
    }

    /// <summary>Reports a file that may not be deleted (another user's, in a folder with the sticky bit).</summary>
    private bool TryDelete(string name, bool reports = true)
    {
        try
        {
            _ = _directory.Delete(name);
            return true;
        }
        catch (QueueDiskException error)
        {
            if (reports)
                _errors?.Add(error);
            return false;
        }
    }

    private void RetryDeletions()
    {
        for (int count = _overdue.Count; count > 0 && _overdue.TryDequeue(out string? name); count--)
        {
            if (!TryDelete(name, reports: false))
                _overdue.Enqueue(name);
        }
    }

    /// <summary>Deletes the oldest files beyond those to keep. One of them may be reused instead.</summary>
    private void RetainNewest(int countMin, ref string? spare)
    {
        RetryDeletions();
        while (_rolled.Count > countMin && _rolled.Count > _options.RetainedFileCount)
        {
            string oldest = _rolled.TakeOldest();
            if (_options.ReuseOldFiles && spare is null)
            {
                _unsynced.Remove(oldest);
                spare = oldest;
            }
            else
            {
                Delete(oldest);
            }
        }
    }

    /// <summary>
    /// Starts to make the next file on a thread of its own: all threads of the pool may be waiting for room in this one.
    /// </summary>
    private void BeginNext(string? spare)
    {
        _spare = spare;
        try
        {
            _next = Task.Factory.StartNew(
                () => MakeNext(spare), CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
        }
        catch (TaskSchedulerException)
        {
            // The system gives no thread: the roll makes the file by itself.
        }
    }

    /// <summary>Takes the next file, waiting for it.</summary>
    private AppendFile TakeNext()
    {
        Task<AppendFile>? next = _next;
        _next = null;
        try
        {
            if (next is not null)
                return next.GetAwaiter().GetResult();
        }
        catch (Exception)
        {
            // What failed then, hours ago perhaps, need not fail now: the limit of open files, a full disk.
        }

        _ = _directory.Delete(_nextName);
        return MakeNext(_spare);
    }

    /// <summary>Makes the next file, or turns an old one into it, with its first room.</summary>
    private AppendFile MakeNext(string? spare)
    {
        if (spare is not null && !TryReuse(spare))
            spare = null;

        FileOpening opening = spare is not null ? FileOpening.ReadWrite : FileOpening.CreateNew;
        PlatformFile file = _directory.Open(_nextName, opening) ?? throw DiskErrors.Make(
            "Cannot make the next file", Path.Combine(_directory.Path, _nextName), DiskErrors.EEXIST, "File exists");
        AppendFile next = new(file, _options, roomEnd: 0);
        try
        {
            TakeAlone(file);
            if (PlantedFaults.Has(PlantedFault.ReusedNotCleared))
                spare = null;
            if (spare is not null)
                next.Clear();
            next.MakeRoom(Math.Max(1, Math.Min(_options.RollLength, _options.PreallocationStep)));
            if (IsDurable)
            {
                next.Sync();
                _directory.FlushEntries("");
            }

            return next;
        }
        catch
        {
            next.Dispose();
            throw;
        }
    }

    /// <summary>
    /// Turns a closed file into the next one. Not one that is gone or may not be renamed, and not one that another program has
    /// kept by a link: reuse would overwrite it. Of that one only the name is deleted.
    /// </summary>
    private bool TryReuse(string spare)
    {
        try
        {
            using PlatformFile? file = _directory.Open(spare, FileOpening.Read);
            bool? isKept = file?.HasOtherNames;
            if (isKept == true)
                _ = _directory.Delete(spare);
            if (isKept != false)
                return false;
            _directory.Rename(spare, _nextName);
        }
        catch (QueueDiskException error)
        {
            _errors?.Add(error);
            _overdue.Enqueue(spare);
            return false;
        }

        // Before the first zero is written: after a cut a closed file is whole or is not there.
        _directory.FlushEntries("");
        return true;
    }
}
