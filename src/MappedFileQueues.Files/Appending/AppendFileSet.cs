using MappedFileQueues.Files.Names;
using MappedFileQueues.Files.Rolling;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Files.Appending;

/// <summary>
/// The file that a stream writes, the closed ones after it, and the next one, which a background thread prepares. One thread at
/// a time uses it: the one that has the stream's draining role.
/// <para>A roll, and what is there when the process dies after each step: (1) the file is cut to its true length and, where the
/// level says so, flushed: as before, without zeros after it. (2) It gets its number: no current file; opening makes one. (3) The
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
    private readonly AppendFileOptions _options;
    private readonly HeldDirectory _directory;
    private readonly PlatformLock _lock;
    private readonly string _name;
    private readonly string _nextName;
    private readonly RolledFiles _rolled;
    private readonly RolledFileRetention _retention;
    private readonly RoomMark _room;
    private readonly List<(string Name, FileIdentity Identity)> _unsynced = [];
    private Task<AppendFile>? _next;
    private string? _spare;
    private readonly Notices<RolledFile>? _notices;
    private readonly Notices<Exception>? _errors;

    private bool _areEntriesDirty;
    private bool _isAnyMoved;

    private AppendFileSet(HeldDirectory directory, PlatformLock ownership, string name, AppendFileOptions options)
    {
        (_directory, _lock, _name, _options) = (directory, ownership, name, options);
        RolledNames names = new(name);
        _nextName = names.Next;
        _rolled = new RolledFiles(directory, names);
        _room = new RoomMark(directory, name);
        _notices = options.OnRolled is { } handler ? new Notices<RolledFile>(handler) : null;
        _errors = options.OnError is { } errorHandler ? new Notices<Exception>(errorHandler) : null;
        _retention = new RolledFileRetention(directory, _rolled, options, ForgetUnsynced, _errors);
        Schedule = new RollSchedule(options);
        Current = null!;
    }

    /// <summary>When the next roll is due.</summary>
    public RollSchedule Schedule { get; }

    /// <summary>The file that is written.</summary>
    public AppendFile Current { get; private set; }

    /// <summary>The length that the current file had when it was opened.</summary>
    public long OpenedLength { get; private set; }

    /// <inheritdoc cref="RolledFileRetention.ExpiryTicks"/>
    public long ExpiryTicks => _retention.ExpiryTicks;

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
            bool wasLockThere = directory.Identify(lockName) is not null;
            ownership = LockWait.TryTake(directory, lockName, LockKind.Exclusive, LockWait.Passing) ?? throw directory.InUse(
                lockName, "Another stream appends to this file", "Close it, or write to another file.", $"path={path}");
            files = new AppendFileSet(directory, ownership, name, options);
            // A lock file that this made says nothing of a file that was there before.
            files.OpenFirst(wasLockThere ? ownership.NotedTime : null);
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
        try
        {
            if (_directory.Identify(_name) is not null || _directory.IsStillInPlace)
                return;
        }
        catch (QueueDiskException)
        {
            // Without rights on the folder nobody can tell, and the open file takes what is written.
            return;
        }

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
        foreach ((string name, FileIdentity identity) in _unsynced)
        {
            using PlatformFile? file = OpenToSync(name);
            if (file?.Identity == identity)
                file.Sync();
            else
                _isAnyMoved = true;
        }

        // Another program has renamed a closed file (logrotate), deleted it or made it read-only. Its file system is known.
        if (_isAnyMoved)
            _directory.FlushFileSystem();
        _isAnyMoved = false;
        _unsynced.Clear();
        Current.Sync();
        if (_areEntriesDirty)
            _directory.FlushEntries("");
        _areEntriesDirty = false;
    }

    /// <summary>A closed file; null where it is gone, or cannot be opened any more.</summary>
    private PlatformFile? OpenToSync(string name)
    {
        try
        {
            return _directory.Open(name, FileOpening.ReadWrite);
        }
        catch (QueueDiskException) when (!CurrentPlatform.Services.IsPortable)
        {
            return null;
        }
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
        bool isMoved;
        string? rolled;
        FileIdentity? named;
        try
        {
            // Another program has moved or deleted it while it was written, which it may. Its own file of the name is kept.
            named = _directory.Identify(_name);
            isMoved = named != Current.Identity;
            rolled = named is null ? null : _rolled.Add(_name);
        }
        catch (IOException error)
        {
            PutRollOff(error);
            return;
        }

        // No later flush finds it by its name.
        if (isMoved && !IsDurable)
            Current.Sync();

        // Without a journal a cut may do the second renaming and not the first, which would take this file away.
        if (rolled is not null && IsDurable)
            _directory.FlushEntries("");

        // Before the next file needs its room. But until that has the name, this one is needed.
        string? spare = null;
        _retention.RetainNewest(countMin: 1, ref spare);
        if (!TryBeginFile(rolled, spare))
            return;
        _retention.RetainNewest(countMin: 0, ref spare);
        _areEntriesDirty = true;
        if (rolled is not null && !IsDurable && _rolled.Count > 0)
            _unsynced.Add((rolled, named!.Value));
        if (IsDurable)
            _directory.FlushEntries("");
        Announce(isMoved ? null : rolled, length);
        Schedule.Begin();
        _lock.NoteTime();
        _retention.NoteExpiry(rolled);
        BeginNext(spare);
    }

    /// <inheritdoc cref="RolledFileRetention.DeleteExpired"/>
    public void DeleteExpired() => _areEntriesDirty |= _retention.DeleteExpired();

    /// <summary>Ends the current file after its last byte; best effort after a failure, whose error is thrown already.</summary>
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
            if (_next is { } next)
            {
                Uninterrupted.Run(next.Wait);
                next.Result.Dispose();
            }

            _ = _directory.Delete(_nextName);
        }
        catch (Exception)
        {
            // Nothing was written to it, and the next opening deletes what is left of it.
        }

        _lock.Dispose();
        _directory.Dispose();
    }

    /// <summary>
    /// What retention deletes, or cannot delete and tries again, needs no sync. But another program may have renamed the file, or
    /// keep it by a link: then only its name goes, and a flush promises what is in it.
    /// </summary>
    private void ForgetUnsynced(string name)
    {
        int index = _unsynced.FindIndex(file => file.Name == name);
        if (index < 0)
            return;
        FileIdentity identity = _unsynced[index].Identity;
        _unsynced.RemoveAt(index);
        try
        {
            using PlatformFile? file = _directory.Open(name, FileOpening.Read);
            _isAnyMoved |= file is null || file.Identity != identity || file.HasOtherNames;
        }
        catch (QueueDiskException)
        {
            _isAnyMoved = true;
        }
    }

    private void OpenFirst(DateTimeOffset? noted)
    {
        _ = _retention.TryDelete(_nextName);
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
        DateTimeOffset now = Schedule.ReadClock();
        DateTimeOffset? begun = now;
        if (isThere && OpenedLength > 0)
            begun = FindBegun(file, noted, now);
        else
            _lock.NoteTime();
        // What was written on an earlier day belongs to it, even where its beginning is unknown.
        Schedule.Begin(begun ?? now, ofDay: begun ?? (lastWritten < now ? lastWritten : now));
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

    /// <summary>
    /// When a file that has content was begun; null where it is unknown. A file that a roll began was made long before, as the
    /// next one, or is an older one that is used again; on NTFS its birth may be that of an earlier file of its name. The lock
    /// file has the time of the roll. A file that was born after that is another program's.
    /// </summary>
    private DateTimeOffset? FindBegun(PlatformFile file, DateTimeOffset? noted, DateTimeOffset now)
    {
        DateTimeOffset? birth = _options.ReuseOldFiles ? null : file.Birth;
        DateTimeOffset? begun = birth > noted ? birth : noted ?? birth;
        return begun > now ? now : begun;
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
            next.NoteName(Path.Combine(_directory.Path, _name));
            // NTFS gives it now the time of creation of the file that had this name before.
            TryMarkRoom(next);
        }
        catch (IOException error)
        {
            next?.Dispose();
            if (!TryTakeNameBack(rolled))
                throw;

            if (spare is not null)
                _retention.DeleteLater(spare);
            if (_spare is not null)
                _retention.DeleteLater(_spare);
            _spare = null;
            PutRollOff(error);
            return false;
        }

        Current.Dispose();
        Current = next;
        return true;
    }

    /// <summary>
    /// Between the two renamings another program may have made a file of this name, or a link, which may lead nowhere. Nothing of
    /// it may be lost: it is kept like one that was rolled.
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

            try
            {
                _ = _rolled.Add(_name);
            }
            catch (QueueDiskException error) when (error.Errno == DiskErrors.ENOENT)
            {
                // It is gone again.
            }
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

        TryMarkRoom(Current);
        return true;
    }

    private void TryMarkRoom(AppendFile file)
    {
        try
        {
            if (_options.LeavesZeros)
                file.MarkRoom(_room, IsDurable);
        }
        catch (IOException)
        {
            // Without the mark zeros may stay at the end after a crash, which is no loss.
        }
    }

    /// <summary>Continues the current file; says so once, until a roll succeeds.</summary>
    private void PutRollOff(IOException error)
    {
        Current.Continue();
        _areEntriesDirty = true;
        if (Schedule.PutOff())
        {
            _errors?.Add(new QueueDiskException(
                $"Cannot begin the next file, so this one is continued, and the roll is tried again: path={Current.Path}."
                    + $" {error.Message}",
                (error as QueueDiskException)?.Errno ?? 0,
                Current.Path,
                error));
        }
    }

    private void Announce(string? rolled, long length)
    {
        if (_notices is null || rolled is null || _rolled.Count == 0)
            return;
        _notices.Add(new RolledFile
        {
            Path = Path.Combine(_directory.Path, rolled),
            Length = length,
            Begun = Schedule.Begun,
            Ended = _options.TimeProvider.GetUtcNow(),
        });
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
            {
                Uninterrupted.Run(next.Wait);
                return next.Result;
            }
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
            _retention.DeleteLater(spare);
            return false;
        }

        // Before the first zero is written: after a power loss a closed file is whole or is not there.
        _directory.FlushEntries("");
        return true;
    }
}
