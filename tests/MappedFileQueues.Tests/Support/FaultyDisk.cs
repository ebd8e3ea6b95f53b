using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Tests.Support;

/// <summary>The calls that a test may look at, or let fail.</summary>
internal enum DiskCall
{
    Open,
    Write,
    Sync,
    Synced,
    SyncEntries,
    SyncFileSystem,
    Rename,
    Renamed,
    Deleted,
    Lock,
    List,
}

/// <summary>
/// A platform whose calls a test can see and let fail. For the stores that this test opens from here on, and their threads.
/// </summary>
internal sealed class FaultyDisk : ForwardingServices
{
    private readonly Lock _lock = new();
    private string _failed = "";
    private bool _wasTold;

    public FaultyDisk()
        : base(CurrentPlatform.Services) => CurrentPlatform.Services = this;

    /// <summary>Called before each call (`Renamed`, `Deleted`, `Synced`: after it) with the file's name; may throw.</summary>
    public Action<DiskCall, string>? Before { get; set; }

    /// <summary>Called before each read of a store's file with its name and the position; may throw.</summary>
    public Action<string, long>? BeforeRead { get; set; }

    public override string? BootId => BootIdOverride ?? base.BootId;

    /// <summary>Makes this another boot, of which nothing more is known.</summary>
    public string? BootIdOverride { get; set; }

    public override ulong MemoryId => MemoryIdOverride ?? (BootIdOverride is null ? base.MemoryId : 0);

    /// <summary>Makes this the memory of another kernel, or of none that tells.</summary>
    public ulong? MemoryIdOverride { get; set; }

    /// <summary>Whether files can have a second name.</summary>
    public bool CanLink { get; set; } = true;

    /// <summary>Says when each file was created, instead of the file system.</summary>
    public Func<DateTimeOffset>? Birth { get; set; }

    /// <summary>Whether the process has the rights to look at what is in a folder that it holds.</summary>
    public bool CanLook { get; set; } = true;

    /// <summary>Whether an open file can be locked against others (fcntl).</summary>
    public bool CanTakeAlone { get; set; } = true;

    /// <summary>Whether anybody wanted to know that.</summary>
    public bool WasAskedWhetherTaken { get; private set; }

    /// <summary>What a failed disk says.</summary>
    public static QueueDiskException Broken(string name) => new($"The disk fails: {name}.", DiskErrors.EIO, name);

    /// <summary>
    /// The next sync of a file whose name begins so fails, once; as in the kernel, the one after it does not. Not of a
    /// file that is still being made, unless that is the one: the thread that prepares segments does that at any time, and then
    /// makes another one.
    /// </summary>
    public void FailNextSync(string prefix)
    {
        int left = 1;
        Before = (call, name) =>
        {
            bool isIt = call is DiskCall.Sync or DiskCall.SyncEntries && name.StartsWith(prefix, StringComparison.Ordinal)
                && IsTemporary(name) == IsTemporary(prefix);
            if (isIt && Interlocked.Decrement(ref left) == 0)
                throw Broken(name);
        };
    }

    /// <summary>Called when a sync was told of <see cref="FailWriteBack"/>, before it throws.</summary>
    public Action<string>? Told { get; set; }

    /// <summary>
    /// A page of a file could not be written. As in the kernel, each descriptor that is open now is told once, by its next sync;
    /// one that is opened later is told only as long as no other was.
    /// </summary>
    public void FailWriteBack(string name)
    {
        lock (_lock)
            (_failed, _wasTold) = (name, false);
    }

    protected override HeldDirectory Wrap(HeldDirectory directory) => new FaultyDirectory(this, directory);

    private static bool IsTemporary(string name) => name.EndsWith(WholeFile.TemporarySuffix, StringComparison.Ordinal);

    private void Reach(DiskCall call, string name) => Before?.Invoke(call, name);

    private bool WasToldBeforeOpening(string name)
    {
        lock (_lock)
            return _failed == name && _wasTold;
    }

    private void Tell(string name, ref bool knows)
    {
        lock (_lock)
        {
            if (_failed != name || knows)
                return;
            knows = _wasTold = true;
        }

        Told?.Invoke(name);
        throw Broken(name);
    }

    private sealed class FaultyDirectory(FaultyDisk disk, HeldDirectory inner) : ForwardingDirectory(inner)
    {
        public override PlatformFile? Open(string name, FileOpening opening)
        {
            disk.Reach(DiskCall.Open, name);
            return base.Open(name, opening);
        }

        public override FileIdentity? Identify(string name) =>
            disk.CanLook ? base.Identify(name) : throw new QueueDiskException("No rights.", DiskErrors.EACCES, name);

        public override bool RenameWithoutReplacing(string from, string to)
        {
            disk.Reach(DiskCall.Rename, to);
            bool isRenamed = base.RenameWithoutReplacing(from, to);
            disk.Reach(DiskCall.Renamed, to);
            return isRenamed;
        }

        public override void Rename(string from, string to)
        {
            disk.Reach(DiskCall.Rename, to);
            base.Rename(from, to);
            disk.Reach(DiskCall.Renamed, to);
        }

        public override bool TryLink(string name, HeldDirectory target, string targetName) =>
            disk.CanLink && base.TryLink(name, target, targetName);

        public override bool Delete(string name)
        {
            bool isDeleted = base.Delete(name);
            disk.Reach(DiskCall.Deleted, name);
            return isDeleted;
        }

        public override IReadOnlyList<string> List(string subdirectory)
        {
            disk.Reach(DiskCall.List, subdirectory);
            return base.List(subdirectory);
        }

        public override void FlushEntries(string subdirectory)
        {
            disk.Reach(DiskCall.SyncEntries, subdirectory);
            base.FlushEntries(subdirectory);
        }

        public override void FlushFileSystem()
        {
            disk.Reach(DiskCall.SyncFileSystem, "");
            base.FlushFileSystem();
        }

        public override PlatformLock? TryLock(string name, LockKind kind, bool create = true)
        {
            disk.Reach(DiskCall.Lock, name);
            return base.TryLock(name, kind, create);
        }

        // Which takes its lock by TryLock above.
        public override RepeatedLock OpenRepeatedLock(string name) => new(this, name);

        protected override PlatformFile Wrap(string name, PlatformFile file) => new FaultyFile(disk, file, name);
    }

    private sealed class FaultyFile(FaultyDisk disk, PlatformFile inner, string name) : ForwardingFile(inner)
    {
        private bool _knows = disk.WasToldBeforeOpening(name);

        public override DateTimeOffset? Birth => disk.Birth is { } birth ? birth() : base.Birth;

        public override bool IsTakenAlone
        {
            get
            {
                disk.WasAskedWhetherTaken = true;
                return disk.CanTakeAlone && base.IsTakenAlone;
            }
        }

        public override int ReadAt(Span<byte> destination, long position)
        {
            disk.BeforeRead?.Invoke(name, position);
            return base.ReadAt(destination, position);
        }

        public override void WriteAt(ReadOnlySpan<byte> source, long position)
        {
            disk.Reach(DiskCall.Write, name);
            base.WriteAt(source, position);
        }

        public override void AwaitWriteBack(long offset, long length, Action? failed)
        {
            try
            {
                disk.Tell(name, ref _knows);
            }
            catch (QueueDiskException)
            {
                failed?.Invoke();
                throw;
            }

            base.AwaitWriteBack(offset, length, failed);
        }

        public override void FlushData()
        {
            disk.Reach(DiskCall.Sync, name);
            disk.Tell(name, ref _knows);
            base.FlushData();
            disk.Reach(DiskCall.Synced, name);
        }
    }
}
