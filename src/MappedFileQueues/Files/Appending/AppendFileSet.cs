using MappedFileQueues.Files.Names;
using MappedFileQueues.Files.Rolling;
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
/// reads it.</para>
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
    private readonly RoomMark _room;
    private readonly List<string> _unsynced = [];
    private Task<AppendFile>? _next;
    private string? _spare;
    private readonly RollNotices? _notices;
    private bool _areEntriesDirty;
    private DateTimeOffset _begun;
    private long _dueTicks;
    private long _expiryTicks = long.MaxValue;

    private AppendFileSet(HeldDirectory directory, PlatformLock ownership, string name, AppendFileOptions options)
    {
        (_directory, _lock, _name, _options) = (directory, ownership, name, options);
        RolledNames names = new(name);
        _nextName = names.Next;
        _rolled = new RolledFiles(directory, names);
        _room = new RoomMark(directory, name);
        _notices = options.OnRolled is { } handler ? new RollNotices(handler) : null;
        Current = null!;
    }

    /// <summary>The file that is written.</summary>
    public AppendFile Current { get; private set; }

    /// <summary>The length that the current file had when it was opened.</summary>
    public long OpenedLength { get; private set; }

    /// <summary>When it becomes too old, in ticks of UTC; may be read by any thread.</summary>
    public long DueTicks => Volatile.Read(ref _dueTicks);

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
            string lockName = name + ".lock";
            ownership = directory.TryLock(lockName, LockKind.Exclusive) ?? throw directory.InUse(
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

    /// <summary>fdatasync of everything that is written so far.</summary>
    public void Sync()
    {
#if MFQ_PLANTED
        if (Memory.PlantedFaults.Has(Memory.PlantedFault.AppendNotFlushed))
            return;
#endif
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

    /// <summary>Ends the current file and begins the next one.</summary>
    public void Roll()
    {
        Current.Cut();
        if (IsDurable)
            Current.Sync();
        long length = Current.End;
        string? rolled = null;
        Current.Dispose();

        // Missing: another program has moved or deleted it while it was written, which it may.
        if (_directory.Identify(_name) is not null)
        {
            rolled = _rolled.Add(_name);
            if (!IsDurable)
                _unsynced.Add(rolled);

            // Without a journal a cut may do the second renaming and not the first, which would take this file away.
            if (IsDurable)
                _directory.FlushEntries("");
        }

        string? spare = RetainNewest();
        Current = TakeNext();
        if (_options.LeavesZeros)
            Current.MarkRoom(_room, IsDurable);
        if (!_directory.RenameWithoutReplacing(_nextName, _name))
        {
            throw DiskErrors.Make(
                "Cannot begin the next file", Path.Combine(_directory.Path, _name), DiskErrors.EEXIST, "File exists");
        }

        _areEntriesDirty = true;
        if (IsDurable)
            _directory.FlushEntries("");
        Announce(rolled, length);
        _begun = _options.TimeProvider.GetUtcNow();
        BeginDay();
        BeginNext(spare);
    }

    /// <summary>The current file is one of today: it was begun now, or nothing is in it yet.</summary>
    public void BeginDay() => Volatile.Write(ref _dueTicks, DueAfter(_begun, _options.TimeProvider.GetUtcNow()));

    /// <summary>Deletes the closed files that have been kept long enough.</summary>
    public void DeleteExpired()
    {
        if (_options.RetainedAge is not { } age)
            return;
        long expiry = long.MaxValue;
        while (_rolled.Count > 0)
        {
            expiry = ExpiryOf(_rolled.Oldest, age);
            if (expiry > _options.TimeProvider.GetUtcNow().UtcTicks)
                break;
            Delete(_rolled.TakeOldest());
            expiry = long.MaxValue;
        }

        Volatile.Write(ref _expiryTicks, expiry);
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
        _ = _directory.Delete(_nextName);
        bool isThere = _directory.Identify(_name) is not null;
        PlatformFile file = _directory.Open(_name, FileOpening.ReadWriteOrCreate)!;
        DateTimeOffset lastWritten;
        try
        {
            TakeAlone(file);
            OpenedLength = _options.Append ? AppendFile.FindEnd(file, RoomStart(file)) : 0;
#if MFQ_PLANTED
            if (Memory.PlantedFaults.Has(Memory.PlantedFault.ZeroTailKept))
                OpenedLength = file.Length;
#endif
            lastWritten = file.LastWritten;
            if (file.Length != OpenedLength)
                file.SetLength(OpenedLength);
            EndTornLine(file);
        }
        catch
        {
            file.Dispose();
            throw;
        }

        const long Block = AppendFileOptions.BlockLength;
        Current = new AppendFile(file, _options, roomEnd: (OpenedLength + Block - 1) / Block * Block) { End = OpenedLength };
        if (_options.LeavesZeros)
            Current.MarkRoom(_room, IsDurable);
        else
            _room.Clear();
        Current.MakeRoom(OpenedLength + 1);
        DateTimeOffset now = _options.TimeProvider.GetUtcNow();
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

    /// <summary>
    /// Where lines are written, the part of a line that a killed process or a full disk left stays a line of its own.
    /// </summary>
    private void EndTornLine(PlatformFile file)
    {
        if (_options.Content != FileContent.Lines || OpenedLength == 0)
            return;
        byte[] last = new byte[1];
        _ = file.ReadAt(last, OpenedLength - 1);

        // A full file takes nothing any more: the next line begins the next file.
        if (last[0] == (byte)'\n' || (_options.RollsByLength && OpenedLength >= _options.RollLength))
            return;
        file.WriteAt("\n"u8, OpenedLength);
        OpenedLength++;
    }

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

    /// <summary>When a closed file has been kept long enough; at once if it is gone.</summary>
    private long ExpiryOf(string name, TimeSpan age)
    {
        using PlatformFile? file = _directory.Open(name, FileOpening.Read);
        long last = file?.LastWritten.UtcTicks ?? 0;
        return age.Ticks < long.MaxValue - last ? last + age.Ticks : long.MaxValue;
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
        _ = _directory.Delete(rolled);
        _areEntriesDirty = true;
    }

    /// <summary>Deletes the oldest files beyond those to keep. One of them may be reused instead: its name is returned.</summary>
    private string? RetainNewest()
    {
        string? spare = null;
        while (_rolled.Count > _options.RetainedFileCount)
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

        DeleteExpired();
        return spare;
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
        if (spare is not null && !MayBeReused(spare))
            spare = null;
        if (spare is not null)
        {
            // Flushed before the first zero is written: after a cut a closed file is whole or is not there.
            _directory.Rename(spare, _nextName);
            _directory.FlushEntries("");
        }

        FileOpening opening = spare is not null ? FileOpening.ReadWrite : FileOpening.CreateNew;
        PlatformFile file = _directory.Open(_nextName, opening) ?? throw DiskErrors.Make(
            "Cannot make the next file", Path.Combine(_directory.Path, _nextName), DiskErrors.EEXIST, "File exists");
        AppendFile next = new(file, _options, roomEnd: 0);
        try
        {
            TakeAlone(file);
#if MFQ_PLANTED
            if (Memory.PlantedFaults.Has(Memory.PlantedFault.ReusedNotCleared))
                spare = null;
#endif
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
    /// Not a file that is gone, and not one that another program has kept by a link: reuse would overwrite it. Of that one only
    /// the name is deleted.
    /// </summary>
    private bool MayBeReused(string spare)
    {
        using PlatformFile? file = _directory.Open(spare, FileOpening.Read);
        if (file?.HasOtherNames == true)
            _ = _directory.Delete(spare);
        return file?.HasOtherNames == false;
    }
}
