using MappedFileQueues.Platform;

namespace MappedFileQueues.Files;

/// <summary>
/// The file that a stream writes, the closed ones behind it, and the next one, which a background thread makes ready. One thread
/// at a time uses it: whoever holds the stream's draining role.
/// <para>A roll, and what is there when the process dies behind each step: (1) the file is cut to its true length and, where the
/// level says so, flushed: as before, without zeros behind. (2) It gets its number: no current file; opening makes one. (3) The
/// next file, `NAME.next` until now, gets the name. (4) With retention the oldest file is deleted, or becomes the next
/// `NAME.next`, which is zeroed before it is used; an unfinished `NAME.next` is deleted by the next opening, and nothing ever
/// reads it.</para>
/// </summary>
internal sealed class AppendFileSet : IDisposable
{
    private readonly AppendFileOptions _options;
    private readonly StoreDirectory _directory;
    private readonly PlatformLock _lock;
    private readonly string _name;
    private readonly RolledFiles _rolled;
    private readonly List<string> _unsynced = [];
    private Task<AppendFile>? _next;
    private string? _spare;
    private bool _areEntriesDirty;
    private long _begunTicks;

    private AppendFileSet(StoreDirectory directory, PlatformLock ownership, string name, AppendFileOptions options)
    {
        (_directory, _lock, _name, _options) = (directory, ownership, name, options);
        _rolled = new RolledFiles(directory, name);
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

    private string NextName => _name + ".next";

    private bool IsDurable => _options.Durability != AppendDurability.None;

    /// <summary>Opens or makes the file, and takes the lock that keeps a second stream away.</summary>
    public static AppendFileSet Open(string path, AppendFileOptions options)
    {
        string full = Path.GetFullPath(path);
        string name = Path.GetFileName(full);
        ArgumentException.ThrowIfNullOrEmpty(name, nameof(path));
        StoreDirectory directory = OperatingSystemServices.Current.OpenDirectory(
            Path.GetDirectoryName(full)!, create: true, options.UnixCreateMode, ownerOnly: false)!;
        PlatformLock? ownership = null;
        AppendFileSet? files = null;
        try
        {
            string lockName = name + ".lock";
            ownership = directory.TryLock(lockName, LockKind.Exclusive) ?? throw new QueueInUseException(
                $"Another stream appends to this file: path={full}, pids={string.Join(',', directory.LockHolders(lockName))}."
                    + " Close it, or write to another file.");
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
        if (!_directory.RenameWithoutReplacing(NextName, _name))
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
            _ = _directory.Delete(NextName);
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
        _ = _directory.Delete(NextName);
        bool isThere = _directory.Identify(_name) is not null;
        PlatformFile file = _directory.Open(_name, FileOpening.ReadWriteOrCreate)!;
        try
        {
            OpenedLength = _options.Append ? AppendFile.FindEnd(file, _options.Content) : 0;
#if MFQ_PLANTED
            if (Memory.PlantedFaults.Has(Memory.PlantedFault.ZeroTailKept))
                OpenedLength = file.Length;
#endif
            if (file.Length != OpenedLength)
                file.SetLength(OpenedLength);
        }
        catch
        {
            file.Dispose();
            throw;
        }

        const long Block = AppendFileOptions.BlockLength;
        Current = new AppendFile(file, _options, roomEnd: (OpenedLength + Block - 1) / Block * Block) { End = OpenedLength };
        Current.MakeRoom(OpenedLength + 1);
        BegunTicks = BirthOf(isThere).UtcTicks;

        // Also when the file was there: the process that made it or gave it its name may have been killed before it flushed that.
        _areEntriesDirty = true;
        if (_options.Rolls)
            BeginNext(null);
    }

    private DateTimeOffset BirthOf(bool isThere)
    {
        DateTimeOffset now = _options.TimeProvider.GetUtcNow();
        if (!isThere || _options.ReuseOldFiles || OpenedLength == 0)
            return now;
        DateTimeOffset birth = File.GetCreationTimeUtc(Current.Path);
        return birth < now ? birth : now;
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

        _ = _directory.Delete(NextName);
        return MakeNext(_spare);
    }

    /// <summary>Makes the next file, or an old one into it, with its first room.</summary>
    private AppendFile MakeNext(string? spare)
    {
        if (spare is not null && _directory.Identify(spare) is null)
            spare = null;
        if (spare is not null)
        {
            // Flushed before the first zero is written: after a cut a closed file is whole or is not there.
            _directory.Rename(spare, NextName);
            _directory.FlushEntries("");
        }

        FileOpening opening = spare is not null ? FileOpening.ReadWrite : FileOpening.CreateNew;
        PlatformFile file = _directory.Open(NextName, opening) ?? throw DiskErrors.Make(
            "Cannot make the next file", Path.Combine(_directory.Path, NextName), DiskErrors.EEXIST, "File exists");
        AppendFile next = new(file, _options, roomEnd: 0);
        try
        {
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
}
