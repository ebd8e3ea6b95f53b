namespace MappedFileQueues.Bench.Headline;

/// <summary>A queue with the default options, and one kind of message.</summary>
internal abstract class HeadlineQueue : IDisposable
{
    /// <summary>Appends that many quotes, numbered from 0 on.</summary>
    public abstract void Write(int count);

    /// <summary>Reads and commits as many; the sum of what each holds.</summary>
    public abstract long Read(int count);

    public abstract void Dispose();
}
