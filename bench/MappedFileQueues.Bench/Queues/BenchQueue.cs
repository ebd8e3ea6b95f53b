using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Queues;

/// <summary>
/// A store under measurement: one way to append to it and one way to read it, in the same pieces as the raw loops. What is
/// called once a piece may be virtual; what is called once a message is the public API, called as a user calls it.
/// </summary>
internal abstract class BenchQueue : IDisposable
{
    /// <summary>Makes room, so that the next appends meet no page fault.</summary>
    public abstract void Prepare(long bytes);

    /// <summary>The next <see cref="Read"/> begins at the first message again.</summary>
    public abstract void SeekToStart();

    public abstract void Dispose();

    /// <summary>Appends the messages 0 to <paramref name="count"/> - 1.</summary>
    public void Append(long count)
    {
        for (long done = 0; done < count; done += RawLoops.ChunkLength)
            AppendChunk(done, (int)Math.Min(RawLoops.ChunkLength, count - done));
    }

    /// <summary>Reads that many messages and adds them up.</summary>
    public ulong Read(long count)
    {
        ulong sum = 0;
        for (long done = 0; done < count; done += RawLoops.ChunkLength)
            sum += ReadChunk((int)Math.Min(RawLoops.ChunkLength, count - done));
        return sum;
    }

    protected abstract void AppendChunk(long from, int count);

    protected abstract ulong ReadChunk(int count);
}
