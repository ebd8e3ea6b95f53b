using MappedFileQueues.RabbitMQ.Connections;

namespace MappedFileQueues.RabbitMQ.Fetching;

/// <summary>
/// The file that holds a <see cref="FetchPosition"/>: two slots, written in turn and flushed, so that a death in the middle
/// leaves the other one whole.
/// </summary>
internal sealed class PositionFile : IDisposable
{
    /// <summary>Room for some 2,000 sources.</summary>
    private const int SlotLength = 64 * 1024;

    private readonly FileStream _file;
    private long _sequence;

    private PositionFile(FileStream file) => _file = file;

    /// <summary>What the file held; null if it was new, or held nothing whole.</summary>
    public FetchPosition? Position { get; private set; }

    /// <summary>Where the file of a store is.</summary>
    public static string PathOf(string storePath) => Path.Combine(storePath, "bridge.position");

    public static PositionFile Open(string storePath)
    {
        PositionFile opened = new(OpenFile(PathOf(storePath)));
        try
        {
            opened.ReadSlots();
            return opened;
        }
        catch
        {
            opened.Dispose();
            throw;
        }
    }

    private static FileStream OpenFile(string path)
    {
        try
        {
            return new FileStream(path, FileMode.OpenOrCreate, FileAccess.ReadWrite, FileShare.Read, bufferSize: 0);
        }
        catch (UnauthorizedAccessException error)
        {
            // As the store's own files tell it. .NET does not tell a directory from a right that is missing.
            int errno = Directory.Exists(path) ? BrokerException.IsDirectory : BrokerException.NoRight;
            throw new QueueDiskException(
                $"The file of the fetcher's place cannot be opened: path={path}. {error.Message}", errno, path, error);
        }
    }

    /// <summary>Writes a position, and returns once it is on disk.</summary>
    public void Write(FetchPosition position)
    {
        byte[] bytes = position.ToBytes(++_sequence);
        if (bytes.Length > SlotLength)
        {
            throw new BridgeException(
                BridgeFault.SourceChanged,
                $"The stream holds more stores than a fetcher can tell apart: sources={position.Sources.Count}. "
                + "Use several streams.");
        }

        RandomAccess.Write(_file.SafeFileHandle, bytes, _sequence % 2 * SlotLength);
        _file.Flush(flushToDisk: true);
        Position = position;
    }

    public void Dispose() => _file.Dispose();

    private void ReadSlots()
    {
        byte[] slot = new byte[SlotLength];
        for (int index = 0; index < 2; index++)
        {
            int length = RandomAccess.Read(_file.SafeFileHandle, slot, index * SlotLength);
            if (FetchPosition.Read(slot.AsSpan(0, length), out long sequence) is { } position && sequence > _sequence)
                (Position, _sequence) = (position, sequence);
        }

        // Blocks for both slots, so that a full disk is found now.
        if (_file.Length < 2 * SlotLength)
        {
            byte[] zeros = new byte[(2 * SlotLength) - (int)_file.Length];
            RandomAccess.Write(_file.SafeFileHandle, zeros, _file.Length);
            _file.Flush(flushToDisk: true);
        }
    }
}
