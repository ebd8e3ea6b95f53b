using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>One combination that a level has to work in, its store, and the watched platform under it.</summary>
internal sealed class LevelCase : IDisposable
{
    private readonly QueueKind _kind;
    private readonly ProducerMode _mode;

    public LevelCase(bool structs, ProducerMode mode, bool portable)
    {
        _kind = structs ? QueueKind.Struct : QueueKind.Message;
        _mode = mode;
        Services = WatchedServices.Use(portable);
    }

    /// <summary>Both kinds, both modes, both platforms.</summary>
    public static TheoryData<bool, ProducerMode, bool> All
    {
        get
        {
            TheoryData<bool, ProducerMode, bool> all = [];
            foreach (ProducerMode mode in Enum.GetValues<ProducerMode>())
            {
                foreach (bool structs in new[] { true, false })
                {
                    all.Add(structs, mode, false);
                    all.Add(structs, mode, true);
                }
            }

            return all;
        }
    }

    public TempStore Store { get; } = new();

    public WatchedServices Services { get; }

    /// <summary>Opens the store; small segments, since Portable writes each of them as a whole.</summary>
    public QueueUnderTest Open(DurabilityLevel level, Action<MappedFileQueueOptions>? configure = null)
    {
        MappedFileQueueOptions options = new()
        {
            StorePath = Store.StorePath,
            SegmentSize = 256 * 1024,
            ProducerMode = _mode,
            Durability = level,
            // Only a test that is about the interval lets it pass.
            FlushInterval = TimeSpan.FromHours(1),
            // Flushes are counted and held up here.
            PreallocateByWriting = false,
        };
        configure?.Invoke(options);
        return QueueUnderTest.Open(_kind, options);
    }

    public void Dispose() => Store.Dispose();
}
