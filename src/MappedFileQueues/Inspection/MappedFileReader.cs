using MappedFileQueues.Format;
using MappedFileQueues.Inspection;
using MappedFileQueues.Threads;

namespace MappedFileQueues;

/// <summary>
/// Reads a store of either kind without leaving a trace: no name, no lock, nothing written, also on a read-only file system.
/// It polls, backing off from 1 to 10 ms. One thread at a time.
/// </summary>
public sealed unsafe class MappedFileReader : IDisposable
{
    private const int PauseMinMs = 1;
    private const int PauseMaxMs = 10;

    private readonly StoreReader _reader;

    private MappedFileReader(ReadOnlyStore store, QueueStart start, CorruptionPolicy corruption) =>
        _reader = new StoreReader(store, start, corruption, OnSkipped);

    /// <summary>
    /// The reader has stepped over damage, as the policy that it was opened with says. Raised on the reading thread, inside of
    /// its call; what a handler throws ends that call, which may be repeated. A handler may use the reader, and dispose it.
    /// </summary>
    public event EventHandler<CorruptionSkippedEventArgs>? CorruptionSkipped;

    /// <summary>The next message to read, or the one that the last read gave.</summary>
    public long Offset => _reader.Offset;

    /// <summary>The offset behind the message that the last read gave.</summary>
    public long NextOffset => _reader.NextOffset;

    /// <summary>Where the message that was read last began; -1 before the first.</summary>
    public long MessageOffset => _reader.MessageOffset;

    /// <summary>Bytes of the store's struct; 0 for a store of messages of any length.</summary>
    public int StructSize => _reader.Meta.Kind == StoreKind.Struct ? _reader.Meta.StructSize : 0;

    /// <summary>The damage behind which nothing is certain yet, where the last read found no message for that.</summary>
    internal QueueCorruptException? DamageAhead => _reader.DamageAhead;

    /// <summary>Opens a store for reading.</summary>
    /// <param name="path">The store's directory.</param>
    /// <param name="start">Where to begin.</param>
    /// <returns>The reader.</returns>
    /// <exception cref="QueueNotFoundException">There is no store.</exception>
    /// <exception cref="QueueDiskException">No right to read it.</exception>
    /// <exception cref="QueueFormatException">Its meta page is damaged or of another version.</exception>
    /// <exception cref="OffsetOutOfRangeException">The exact start is no frame's start.</exception>
    public static MappedFileReader Open(string path, QueueStart start = default) => Open(path, start, CorruptionPolicy.Throw);

    /// <inheritdoc cref="Open(string, QueueStart)"/>
    /// <param name="path">As there.</param>
    /// <param name="start">As there.</param>
    /// <param name="corruption">What it does where the log is damaged. In a store that nobody has opened since the machine was
    /// started it steps over damage below the last checkpoint only: what lies above may be cut off.</param>
    /// <exception cref="ArgumentOutOfRangeException">The policy is not a defined one.</exception>
    public static MappedFileReader Open(string path, QueueStart start, CorruptionPolicy corruption)
    {
        ArgumentException.ThrowIfNullOrWhiteSpace(path);
        if (!Enum.IsDefined(corruption))
            throw new ArgumentOutOfRangeException(nameof(corruption), corruption, "Not a defined policy.");
        var store = ReadOnlyStore.Open(Path.GetFullPath(path), verifiesChecksum: true);
        try
        {
            return new MappedFileReader(store, start, corruption);
        }
        catch
        {
            store.Dispose();
            throw;
        }
    }

    /// <summary>Reads the next message if there is one, reading on behind the last one.</summary>
    /// <param name="message">The message, in the mapping; valid until the next read or Dispose.</param>
    /// <returns>Whether there was one.</returns>
    /// <exception cref="QueueCorruptException">The log is damaged here; the place stays. With another
    /// <see cref="CorruptionPolicy"/> only where nothing behind the damage can be read, and nobody may append there.</exception>
    /// <exception cref="OffsetOutOfRangeException">The messages here were removed, or cut off by a recovery.</exception>
    /// <exception cref="QueueDiskException">The disk cannot give the message: its page, or its file; the place stays.</exception>
    public bool TryRead(out ReadOnlySpan<byte> message)
    {
        bool found = _reader.TryRead(out byte* payload, out int length);
        message = found ? new ReadOnlySpan<byte>(payload, length) : default;
        return found;
    }

    /// <summary>Reads the next message, polling for it for a time.</summary>
    /// <param name="message">The message, in the mapping; valid until the next read or Dispose.</param>
    /// <param name="timeout">How long; infinite is allowed.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>Whether there was one.</returns>
    /// <exception cref="OperationCanceledException">Cancelled while waiting.</exception>
    /// <exception cref="QueueDeletedException">The store was deleted or replaced.</exception>
    public bool TryRead(out ReadOnlySpan<byte> message, TimeSpan timeout, CancellationToken cancellationToken = default)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(timeout, Timeout.InfiniteTimeSpan);
        var deadline = new Deadline(timeout);
        int pauseMs = PauseMinMs;
        while (!TryRead(out message))
        {
            cancellationToken.ThrowIfCancellationRequested();
            if (deadline.IsOver)
                return false;
            _reader.ThrowIfReplaced();
            cancellationToken.WaitHandle.WaitOne(pauseMs);
            pauseMs = Math.Min(pauseMs * 2, PauseMaxMs);
        }

        return true;
    }

    /// <summary>Moves to a frame's start, the tail, the oldest or behind the newest message.</summary>
    /// <param name="start">Where to.</param>
    /// <exception cref="OffsetOutOfRangeException">The exact offset is no frame's start.</exception>
    public void Seek(QueueStart start) => _reader.Seek(start);

    /// <summary>A snapshot of the store, read from its files.</summary>
    /// <returns>The snapshot.</returns>
    public MappedFileQueueInfo GetInfo() => _reader.GatherInfo();

    /// <summary>
    /// Ends the reader, from any thread, once its call under way has ended. A span that another thread has out stays readable
    /// until that thread's next call.
    /// </summary>
    public void Dispose() => _reader.Dispose();

    internal void ThrowIfOther(int structSize, ulong fingerprint)
    {
        StoreMeta meta = _reader.Meta;
        if (meta.Kind == StoreKind.Struct && meta.StructSize == structSize && meta.LayoutFingerprint == fingerprint)
            return;
        throw new QueueFormatException($"The store does not hold this struct: path={_reader.Path}, "
            + $"structSize={meta.StructSize}, expected={structSize}. Open it with the struct that made it, or as bytes.");
    }

    private void OnSkipped(QueueCorruptException error, long offset, long nextOffset) =>
        CorruptionSkipped?.Invoke(this, new CorruptionSkippedEventArgs("", error, offset, nextOffset));
}
