using System.Buffers.Binary;
using System.Globalization;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Tool.VersionOne;

/// <summary>
/// A folder of MappedFileQueues 1.x or MappedFileQueues.Stream 1.x. Nothing in it is made, written or locked.
/// <code>
/// commitlog/DDDDDDDDDDDDDDDDDDDD      a segment; the name is the offset of its first byte, 20 digits
/// offset/producer.offset              8 bytes, little-endian: where the next message goes
/// offset/producer.confirmed.offset    structs only, and not in the first versions: what is before it was forced to disk
/// offset/consumer.offset              where the consumer continues
/// </code>
/// No file has a header or a checksum, so every number that is read here may be anything.
/// </summary>
internal sealed class VersionOneFolder : IDisposable
{
    private const int WindowLength = 1 << 20;

    private byte[] _window = new byte[WindowLength];
    private SafeFileHandle? _file;
    private VersionOneSegment? _opened;
    private long _windowAt;
    private int _windowCount;

    /// <exception cref="ToolException">The folder holds no store of 1.x.</exception>
    public VersionOneFolder(string path)
    {
        Path = SystemPath.Full(path);
        bool isOfThisVersion = File.Exists(System.IO.Path.Combine(Path, StoreNames.Meta));
        if (isOfThisVersion || !Directory.Exists(LogPath) || !Directory.Exists(OffsetPath))
        {
            throw new ToolException($"The folder holds no store of MappedFileQueues 1.x: path={Path}. Name one with "
                + "`commitlog`, `offset` and no `queue.meta`.");
        }

        // The producer's before the segments' lengths, and both before any message: 1.x may continue to write.
        Producer = ReadOffset("producer.offset");
        Confirmed = ReadOffset("producer.confirmed.offset");
        Consumer = ReadOffset("consumer.offset");
        List<VersionOneSegment> segments = [];
        foreach (FileSystemInfo entry in new DirectoryInfo(LogPath).EnumerateFileSystemInfos())
        {
            if (entry is FileInfo file && file.Name.Length == 20
                && long.TryParse(file.Name, NumberStyles.None, CultureInfo.InvariantCulture, out long start)
                && start <= long.MaxValue - file.Length)
                segments.Add(new VersionOneSegment(file.Name, start, file.Length));
            else
                Strays.Add(entry.Name);
        }

        Segments = [.. segments.OrderBy(segment => segment.Start)];
        End = Segments.Select(segment => segment.End).DefaultIfEmpty(0).Max();
        LengthMax = Segments.Select(segment => segment.Length).DefaultIfEmpty(0).Max();
    }

    public string Path { get; }

    /// <summary>Where the next message goes; null when the file is missing, short or holds no offset.</summary>
    public long? Producer { get; }

    /// <summary>What is before it was forced to disk; null where nothing says.</summary>
    public long? Confirmed { get; }

    /// <summary>Where the consumer continues; null when there was none, or the file holds no offset.</summary>
    public long? Consumer { get; }

    /// <summary>In order.</summary>
    public VersionOneSegment[] Segments { get; }

    /// <summary>The names in `commitlog` that are no segments.</summary>
    public List<string> Strays { get; } = [];

    /// <summary>The end of the last segment.</summary>
    public long End { get; }

    /// <summary>The length of the longest segment.</summary>
    public long LengthMax { get; }

    private string LogPath => System.IO.Path.Combine(Path, "commitlog");

    private string OffsetPath => System.IO.Path.Combine(Path, "offset");

    /// <summary>The last segment that begins at an offset or before it; -1 for none.</summary>
    public int FindIndex(long offset)
    {
        int low = 0;
        int high = Segments.Length;
        while (low < high)
        {
            int middle = (low + high) / 2;
            if (Segments[middle].Start <= offset)
                low = middle + 1;
            else
                high = middle;
        }

        return low - 1;
    }

    /// <summary>Where the first segment after an offset begins; null for none.</summary>
    public long? FindStartAfter(long offset) =>
        FindIndex(offset) + 1 is var next && next < Segments.Length ? Segments[next].Start : null;

    /// <summary>
    /// Reads bytes of a segment; the span is valid until the next call. False when they are not all there, or the disk does not
    /// give them.
    /// </summary>
    public bool TryRead(VersionOneSegment segment, long offset, int length, out ReadOnlySpan<byte> bytes)
    {
        bytes = default;
        if (offset < segment.Start || length > segment.End - offset)
            return false;
        if (_opened != segment)
        {
            _file?.Dispose();
            (_opened, _windowCount) = (null, 0);
            _file = File.OpenHandle(
                System.IO.Path.Combine(LogPath, segment.Name), share: FileShare.ReadWrite | FileShare.Delete);
            _opened = segment;
        }

        long position = offset - segment.Start;
        if (position < _windowAt || position + length > _windowAt + _windowCount)
            Fill(position, length);
        if (position + length > _windowAt + _windowCount)
            return false;
        bytes = _window.AsSpan((int)(position - _windowAt), length);
        return true;
    }

    /// <summary>How many bytes from an offset on, which was just read, are known to be zero.</summary>
    public long CountZeros(VersionOneSegment segment, long offset)
    {
        long at = offset - segment.Start - _windowAt;
        if (_opened != segment || at < 0 || at >= _windowCount)
            return 0;
        ReadOnlySpan<byte> rest = _window.AsSpan((int)at, _windowCount - (int)at);
        int other = rest.IndexOfAnyExcept((byte)0);
        return other < 0 ? rest.Length : other;
    }

    public void Dispose() => _file?.Dispose();

    private void Fill(long position, int length)
    {
        if (_window.Length < length)
            _window = new byte[length];
        (_windowAt, _windowCount) = (position, 0);
        try
        {
            _windowCount = RandomAccess.Read(_file!, _window, position);
        }
        catch (IOException)
        {
            // A bad sector further on must not take what is before it.
            try
            {
                _windowCount = RandomAccess.Read(_file!, _window.AsSpan(0, length), position);
            }
            catch (IOException)
            {
                // These are the bytes that the disk does not give.
            }
        }
    }

    private long? ReadOffset(string name)
    {
        string path = System.IO.Path.Combine(OffsetPath, name);
        if (!File.Exists(path))
            return null;
        using SafeFileHandle file = File.OpenHandle(path, share: FileShare.ReadWrite | FileShare.Delete);
        Span<byte> bytes = stackalloc byte[sizeof(long)];
        bool isWhole = RandomAccess.Read(file, bytes, 0) == bytes.Length;
        return isWhole && BinaryPrimitives.ReadInt64LittleEndian(bytes) is >= 0 and var at ? at : null;
    }
}

/// <summary>A segment file of 1.x.</summary>
/// <param name="Name">Its name.</param>
/// <param name="Start">The offset of its first byte.</param>
/// <param name="Length">Its length.</param>
internal sealed record VersionOneSegment(string Name, long Start, long Length)
{
    public long End => Start + Length;
}
