using MappedFileQueues.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Tests.Durability;

/// <summary>
/// The real platform with a seam at each flush of a file: the flushes are counted, and a test may hold one up or let it fail.
/// </summary>
internal sealed unsafe class WatchedServices(OperatingSystemServices real) : OperatingSystemServices
{
    private int _segmentFlushes;
    private int _cursorFlushes;

    /// <summary>
    /// Called before each flush of a file of the log, with the file's name; what it throws is the flush's error.
    /// </summary>
    public Action<string>? OnSegmentFlush { get; set; }

    /// <summary>The files whose write-back was begun, in order.</summary>
    public System.Collections.Concurrent.ConcurrentQueue<string> StartedWriteBacks { get; } = [];

    /// <summary>How many files of the log were flushed under their real names.</summary>
    public int SegmentFlushes => Volatile.Read(ref _segmentFlushes);

    /// <summary>How many times a consumer's stored offset was flushed.</summary>
    public int CursorFlushes => Volatile.Read(ref _cursorFlushes);

    public override bool IsPortable => real.IsPortable;

    public override string? BootId => real.BootId;

    /// <summary>Chooses the platform for this test, watched, as <see cref="Contract.PlatformScope"/> does it bare.</summary>
    public static WatchedServices Use(bool portable)
    {
        Contract.PlatformScope.Use(portable);
        var watched = new WatchedServices(Current);
        Current = watched;
        return watched;
    }

    public override StoreDirectory? OpenDirectory(string path, bool create, UnixFileMode? mode) =>
        real.OpenDirectory(path, create, mode) is { } directory ? new WatchedDirectory(this, directory) : null;

    public override bool RegisterForFence() => real.RegisterForFence();

    public override bool FenceOtherProcesses() => real.FenceOtherProcesses();

    public override void WaitOnWord(uint* word, uint expected, TimeSpan timeout) => real.WaitOnWord(word, expected, timeout);

    public override void WakeWord(uint* word) => real.WakeWord(word);

    public override long ProcessStartTime(int processId) => real.ProcessStartTime(processId);

    private void Flush(string name, PlatformFile file)
    {
        bool isSegment = name.StartsWith(StoreNames.CommitLog, StringComparison.Ordinal)
            && !name.EndsWith(StoreNames.TemporarySuffix, StringComparison.Ordinal);
        if (isSegment)
        {
            OnSegmentFlush?.Invoke(name);
            Interlocked.Increment(ref _segmentFlushes);
        }

        if (name.EndsWith(".cursor", StringComparison.Ordinal))
            Interlocked.Increment(ref _cursorFlushes);
        file.FlushData();
    }

    private sealed class WatchedDirectory(WatchedServices services, StoreDirectory directory) : StoreDirectory
    {
        public override string Path => directory.Path;

        public override string? UnsafeFileSystem => directory.UnsafeFileSystem;

        public override bool IsStillInPlace => directory.IsStillInPlace;

        public override PlatformFile? Open(string name, FileOpening opening, UnixFileMode? mode = null) =>
            directory.Open(name, opening, mode) is { } file ? new WatchedFile(services, name, file) : null;

        public override bool RenameWithoutReplacing(string from, string to) => directory.RenameWithoutReplacing(from, to);

        public override void Rename(string from, string to) => directory.Rename(from, to);

        public override bool Delete(string name) => directory.Delete(name);

        public override bool CreateSubdirectory(string name) => directory.CreateSubdirectory(name);

        public override IReadOnlyList<string> List(string subdirectory) => directory.List(subdirectory);

        public override void FlushEntries(string subdirectory) => directory.FlushEntries(subdirectory);

        public override PlatformLock? TryLock(string name, LockKind kind) => directory.TryLock(name, kind);

        public override RepeatedLock OpenRepeatedLock(string name) => directory.OpenRepeatedLock(name);

        public override PlatformLock? Probe(string name) => directory.Probe(name);

        public override IReadOnlyList<int> LockHolders(string name) => directory.LockHolders(name);

        public override FileIdentity? Identify(string name) => directory.Identify(name);

        public override void Dispose() => directory.Dispose();
    }

    private sealed class WatchedFile(WatchedServices services, string name, PlatformFile file) : PlatformFile
    {
        public override string Path => file.Path;

        public override long Length => file.Length;

        public override long AllocatedLength => file.AllocatedLength;

        public override FileIdentity Identity => file.Identity;

        public override void SetLength(long length) => file.SetLength(length);

        public override bool TryAllocate(long offset, long length) => file.TryAllocate(offset, length);

        public override void Allocate(long offset, long length) => file.Allocate(offset, length);

        public override int ReadAt(Span<byte> destination, long position) => file.ReadAt(destination, position);

        public override void WriteAt(ReadOnlySpan<byte> source, long position) => file.WriteAt(source, position);

        public override void StartWriteBack(long offset, long length)
        {
            services.StartedWriteBacks.Enqueue(name);
            file.StartWriteBack(offset, length);
        }

        public override void FlushData() => services.Flush(name, file);

        public override MappedView Map(long length, bool writable) => file.Map(length, writable);

        public override void Dispose() => file.Dispose();
    }
}
