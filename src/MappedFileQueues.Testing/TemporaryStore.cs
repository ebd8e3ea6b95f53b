namespace MappedFileQueues.Testing;

/// <summary>The folder and the options of a temporary queue of either kind.</summary>
internal sealed class TemporaryStore : IDisposable
{
    /// <summary>Small, so that a test meets the end of a segment, and quick to make.</summary>
    private const long SegmentSize = 64 * 1024;

    private readonly string _folder = Directory.CreateTempSubdirectory("mfq-temporary-").FullName;

    public TemporaryStore(Action<MappedFileQueueOptions>? configure)
    {
        Options = new MappedFileQueueOptions
        {
            StorePath = Path.Combine(_folder, "store"),
            SegmentSize = SegmentSize,
            PrepareAhead = SegmentSize,
        }.UseDisk(Disk);
        try
        {
            configure?.Invoke(Options);
        }
        catch
        {
            Dispose();
            throw;
        }
    }

    public FaultDisk Disk { get; } = new();

    public MappedFileQueueOptions Options { get; }

    public void Dispose()
    {
        if (Directory.Exists(_folder))
            Directory.Delete(_folder, recursive: true);
    }
}
