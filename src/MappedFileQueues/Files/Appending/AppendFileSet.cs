using MappedFileQueues.Files.Names;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Files.Appending;

/// <summary>
/// The file that a stream writes, the closed ones behind it, and the next one, which a background thread makes ready. One thread
/// at a time uses it: whoever holds the stream's draining role.
/// <para>A roll, and what is there when the process dies behind each step: (1) the file is cut to its true length and, where the
/// level says so, flushed: as before, without zeros behind. (2) It gets its number: no current file; opening makes one. (3) The
/// next file, <see cref="RolledNames.Next"/> until now, gets the name. (4) With retention the oldest file is deleted, or becomes
/// the next one, which is zeroed before it is used; an unfinished next file is deleted by the next opening, and nothing ever
/// reads it.</para>
/// <para>Two locks keep a second stream away. The one beside the file covers the name and all that is rolled from it; symbolic
/// links are followed first, so that each file has one such name. The other is on the file itself, for whoever comes by a hard
/// link.</para>
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
    private bool _areEntriesDirty;
    private long _begunTicks;

    private AppendFileSet(HeldDirectory directory, PlatformLock ownership, string name, AppendFileOptions options)
    {
        (_directory, _lock, _name, _options) = (directory, ownership, name, options);
        RolledNames names = new(name);
        _nextName = names.Next;
        _rolled = new RolledFiles(directory, names);
        _room = new RoomMark(directory, name);
        Current = null!;
    }

    /// <summary>The file that is written.</summary>
    public AppendFile Current { get; private set; }

    /// <summary>The length that the current file had when it was opened.</summary>
    public long OpenedLength { get; private set; }

    /// <summary>When it was begun, in ticks of UTC; may be read by any thread.</summary>
    public long BegunTicks
    {
        get => Volatile.Read(ref _begunTicks);
        private set => Volatile.Write(ref _begunTicks, value);
    }

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
        Current.Dispose();

        // Missing: somebody has moved or deleted it while it was written, and may.
        if (_directory.Identify(_name) is not null)
        {
            string rolled = _rolled.Add(_name);
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
        BegunTicks = _options.TimeProvider.GetUtcNow().UtcTicks;
        BeginNext(spare);
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
        try
        {
            TakeAlone(file);
            OpenedLength = _options.Append ? AppendFile.FindEnd(file, RoomStart(file)) : 0;
#if MFQ_PLANTED
            if (Memory.PlantedFaults.Has(Memory.PlantedFault.ZeroTailKept))
                OpenedLength = file.Length;
#endif
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
        BegunTicks = BirthOf(file, isThere).UtcTicks;

        // Also when the file was there: the process that made it or gave it its name may have been killed before it flushed that.
        _areEntriesDirty = true;
        if (_options.Rolls)
            BeginNext(null);
    }

    /// <summary>On network file systems, which the lock beside the file has to do for, readers would be kept away.</summary>
    private void TakeAlone(PlatformFile file)
    {
        if (_directory.UnsafeFileSystem is null && !file.TryTakeAlone())
        {
            throw new QueueInUseException($"Another stream appends to this file under another name: path={file.Path}. Close it, "
                + "or write to another file.");
        }
    }

    /// <summary>
    /// Where zeros at the end of the file that is opened may be room: anywhere when the caller says that it is text, else where
    /// the mark of a stream says so that was not closed.
    /// </summary>
    private long? RoomStart(PlatformFile file) => _options.Content == FileContent.Binary ? _room.Find(file) : 0;

    /// <summary>Where lines are written, what a killed process or a full disk left of one stays a line of its own.</summary>
    private void EndTornLine(PlatformFile file)
    {
        if (_options.Content != FileContent.Lines || OpenedLength == 0)
            return;
        byte[] last = new byte[1];
        _ = file.ReadAt(last, OpenedLength - 1);

        // A file that has its full length takes nothing any more: the next line begins the next file.
        if (last[0] == (byte)'\n' || (_options.RollsByLength && OpenedLength >= _options.RollLength))
            return;
        file.WriteAt("\n"u8, OpenedLength);
        OpenedLength++;
    }

    private DateTimeOffset BirthOf(PlatformFile file, bool isThere)
    {
        DateTimeOffset now = _options.TimeProvider.GetUtcNow();
        if (!isThere || _options.ReuseOldFiles || OpenedLength == 0)
            return now;
        return file.Birth is { } birth && birth < now ? birth : now;
    }

    /// <summary>Deletes the oldest files beyond those that are kept; the last of them may be used again instead.</summary>
    private string? RetainNewest()
    {
        string? spare = null;
        while (_rolled.Count > _options.RetainedFileCount)
        {
            string oldest = _rolled.TakeOldest();
            _unsynced.Remove(oldest);
            if (_options.ReuseOldFiles && spare is null)
                spare = oldest;
            else
                _ = _directory.Delete(oldest);
        }

        return spare;
    }

    /// <summary>
    /// Begins to make the next file, by a thread of its own: all threads of the pool may be waiting for room in this one.
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
            // What failed then, hours ago maybe, need not fail now: the limit of open files, a full disk.
        }

        _ = _directory.Delete(_nextName);
        return MakeNext(_spare);
    }

    /// <summary>Makes the next file, or an old one into it, with its first room.</summary>
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
    /// Not what is gone, and not what somebody has kept by a link: that would be overwritten. The name alone goes then.
    /// </summary>
    private bool MayBeReused(string spare)
    {
        using PlatformFile? file = _directory.Open(spare, FileOpening.Read);
        if (file?.HasOtherNames == true)
            _ = _directory.Delete(spare);
        return file?.HasOtherNames == false;
    }
}
