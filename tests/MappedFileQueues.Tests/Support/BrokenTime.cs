namespace MappedFileQueues.Tests.Support;

/// <summary>The system's clock, until it throws.</summary>
internal sealed class BrokenTime : TimeProvider
{
    private int _count;

    public volatile bool IsBroken;

    /// <summary>How often it has thrown.</summary>
    public int Count => Volatile.Read(ref _count);

    public override DateTimeOffset GetUtcNow() => IsBroken ? throw Broken() : base.GetUtcNow();

    public override long GetTimestamp() => IsBroken ? throw Broken() : base.GetTimestamp();

    private InvalidTimeZoneException Broken()
    {
        Interlocked.Increment(ref _count);
        return new InvalidTimeZoneException("The clock is broken.");
    }
}
