using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Tests.Support;

/// <summary>
/// The real platform with a seam at each flush of a file: the flushes are counted, and a test may hold one up or let it fail.
/// </summary>
internal sealed class WatchedServices(OperatingSystemServices real) : ForwardingServices(real)
{
    private int _segmentFlushes;
    private int _cursorFlushes;

    /// <summary>
    /// Called before each flush of a file of the log, with the file's name; what it throws is the flush's error.
    /// </summary>
    public Action<string>? OnSegmentFlush { get; set; }

    /// <summary>The files and their places whose write-back was begun, in order.</summary>
    public System.Collections.Concurrent.ConcurrentQueue<(string Name, long Offset)> StartedWriteBacks { get; } = [];

    /// <summary>How many files of the log were flushed under their real names.</summary>
    public int SegmentFlushes => Volatile.Read(ref _segmentFlushes);

    /// <summary>How many times a consumer's stored offset was flushed.</summary>
    public int CursorFlushes => Volatile.Read(ref _cursorFlushes);

    /// <summary>Chooses the platform for this test, watched, as <see cref="Contract.PlatformScope"/> does it bare.</summary>
    public static WatchedServices Use(bool portable)
    {
        Contract.PlatformScope.Use(portable);
        var watched = new WatchedServices(CurrentPlatform.Services);
        CurrentPlatform.Services = watched;
        return watched;
    }

    protected override HeldDirectory Wrap(HeldDirectory directory) => new WatchedDirectory(this, directory);

    private void NoteFlush(string name)
    {
        bool isSegment = name.StartsWith(StoreNames.CommitLog, StringComparison.Ordinal)
            && !name.EndsWith(WholeFile.TemporarySuffix, StringComparison.Ordinal);
        if (isSegment)
        {
            OnSegmentFlush?.Invoke(name);
            Interlocked.Increment(ref _segmentFlushes);
        }

        if (name.EndsWith(".cursor", StringComparison.Ordinal))
            Interlocked.Increment(ref _cursorFlushes);
    }

    private sealed class WatchedDirectory(WatchedServices services, HeldDirectory directory) : ForwardingDirectory(directory)
    {
        protected override PlatformFile Wrap(string name, PlatformFile file) => new WatchedFile(services, name, file);
    }

    private sealed class WatchedFile(WatchedServices services, string name, PlatformFile file) : ForwardingFile(file)
    {
        public override void StartWriteBack(long offset, long length)
        {
            services.StartedWriteBacks.Enqueue((name, offset));
            base.StartWriteBack(offset, length);
        }

        public override void FlushData()
        {
            services.NoteFlush(name);
            base.FlushData();
        }
    }
}
