using MappedFileQueues.Platform;

namespace MappedFileQueues.Tests.Support;

/// <summary>The calls that a test may look at, or let fail.</summary>
internal enum DiskCall
{
    Open,
    Write,
    Sync,
    Synced,
    SyncEntries,
    Rename,
    Renamed,
    Deleted,
    Lock,
}

/// <summary>
/// A platform whose calls a test can see and let fail. For the stores that this test opens from here on, and their threads.
/// </summary>
internal sealed unsafe class FaultyDisk : OperatingSystemServices
{
    private readonly OperatingSystemServices _inner = Current;
    private readonly Lock _lock = new();
    private string _failed = "";
    private bool _wasTold;

    public FaultyDisk() => Current = this;

    /// <summary>Called before each call (`Renamed`, `Deleted`, `Synced`: after it) with the file's name; may throw.</summary>
    public Action<DiskCall, string>? Before { get; set; }

    public override bool IsPortable => _inner.IsPortable;

    public override string? BootId => BootIdOverride ?? _inner.BootId;

    public string? BootIdOverride { get; set; }

    /// <summary>What a failed disk says.</summary>
    public static QueueDiskException Broken(string name) => new($"The disk fails: {name}.", DiskErrors.EIO, name);

    /// <summary>The next sync of a file whose name begins so fails, once; as in the kernel, the one after it does not.</summary>
    public void FailNextSync(string prefix)
    {
        int left = 1;
        Before = (call, name) =>
        {
            bool isIt = call is DiskCall.Sync or DiskCall.SyncEntries && name.StartsWith(prefix, StringComparison.Ordinal);
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

    public override StoreDirectory? OpenDirectory(string path, bool create, UnixFileMode? mode) =>
        _inner.OpenDirectory(path, create, mode) is { } directory ? new FaultyDirectory(this, directory) : null;

    public override bool RegisterForFence() => _inner.RegisterForFence();

    public override bool FenceOtherProcesses() => _inner.FenceOtherProcesses();

    public override void WaitOnWord(uint* word, uint expected, TimeSpan timeout) => _inner.WaitOnWord(word, expected, timeout);

    public override void WakeWord(uint* word) => _inner.WakeWord(word);

    public override long ProcessStartTime(int processId) => _inner.ProcessStartTime(processId);

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

    private sealed class FaultyDirectory(FaultyDisk disk, StoreDirectory inner) : StoreDirectory
    {
        public override string Path => inner.Path;

        public override string? UnsafeFileSystem => inner.UnsafeFileSystem;

        public override bool IsStillInPlace => inner.IsStillInPlace;

        public override PlatformFile? Open(string name, FileOpening opening, UnixFileMode? mode = null)
        {
            disk.Reach(DiskCall.Open, name);
            return inner.Open(name, opening, mode) is { } file ? new FaultyFile(disk, file, name) : null;
        }

        public override bool RenameWithoutReplacing(string from, string to)
        {
            disk.Reach(DiskCall.Rename, to);
            bool isRenamed = inner.RenameWithoutReplacing(from, to);
            disk.Reach(DiskCall.Renamed, to);
            return isRenamed;
        }

        public override void Rename(string from, string to)
        {
            disk.Reach(DiskCall.Rename, to);
            inner.Rename(from, to);
            disk.Reach(DiskCall.Renamed, to);
        }

        public override bool Delete(string name)
        {
            bool isDeleted = inner.Delete(name);
            disk.Reach(DiskCall.Deleted, name);
            return isDeleted;
        }

        public override bool CreateSubdirectory(string name) => inner.CreateSubdirectory(name);

        public override IReadOnlyList<string> List(string subdirectory) => inner.List(subdirectory);

        public override void FlushEntries(string subdirectory)
        {
            disk.Reach(DiskCall.SyncEntries, subdirectory);
            inner.FlushEntries(subdirectory);
        }

        public override PlatformLock? TryLock(string name, LockKind kind)
        {
            disk.Reach(DiskCall.Lock, name);
            return inner.TryLock(name, kind);
        }

        public override PlatformLock? Probe(string name) => inner.Probe(name);

        public override IReadOnlyList<int> LockHolders(string name) => inner.LockHolders(name);

        public override FileIdentity? Identify(string name) => inner.Identify(name);

        public override void Dispose() => inner.Dispose();
    }

    private sealed class FaultyFile(FaultyDisk disk, PlatformFile inner, string name) : PlatformFile
    {
        private bool _knows = disk.WasToldBeforeOpening(name);

        public override string Path => inner.Path;

        public override long Length => inner.Length;

        public override long AllocatedLength => inner.AllocatedLength;

        public override FileIdentity Identity => inner.Identity;

        public override void SetLength(long length) => inner.SetLength(length);

        public override bool TryAllocate(long offset, long length) => inner.TryAllocate(offset, length);

        public override void Allocate(long offset, long length) => inner.Allocate(offset, length);

        public override int ReadAt(Span<byte> destination, long position) => inner.ReadAt(destination, position);

        public override void WriteAt(ReadOnlySpan<byte> source, long position)
        {
            disk.Reach(DiskCall.Write, name);
            inner.WriteAt(source, position);
        }

        public override void FlushData()
        {
            disk.Reach(DiskCall.Sync, name);
            disk.Tell(name, ref _knows);
            inner.FlushData();
            disk.Reach(DiskCall.Synced, name);
        }

        public override MappedView Map(long length, bool writable) => inner.Map(length, writable);

        public override void Dispose() => inner.Dispose();
    }
}
