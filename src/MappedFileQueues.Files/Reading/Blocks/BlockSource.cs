using MappedFileQueues.Files.Names;

namespace MappedFileQueues.Files.Reading.Blocks;

/// <summary>
/// The file that blocks are filled from, and how its end is understood: an end for now, a truncation, or the next file. Reads are
/// made without the lock, by one thread at a time; the file changes only with the lock held and while nobody reads.
/// </summary>
internal sealed class BlockSource : IDisposable
{
    /// <summary>How often a position is looked at again where the file gives nothing but says that it is longer.</summary>
    private const int LooksMax = 3;

    private readonly FileSequence? _sequence;
    private readonly FileMapping? _mapping;
    private readonly bool _skipsRoom;

    private ReadableFile _file;

    /// <summary>The file after this one: found, and not begun yet.</summary>
    private ReadableFile? _successor;

    /// <summary>
    /// The bytes before a position, as they were read. A file that was truncated and has grown beyond the reader's place since
    /// holds others there.
    /// </summary>
    private readonly byte[] _before = new byte[FilePosition.CheckedMax];

    private int _beforeCount;
    private long _beforeEnd;

    /// <summary>Where an earlier reader stopped, with the checksum of what it saw before; until this one reads there.</summary>
    private FilePosition? _resumedAt;

    /// <summary>
    /// The file was written again, or truncated and written, before all of it was read: a line that was begun has no end.
    /// </summary>
    private bool _wasOverwritten;

    /// <param name="source">The file, which this disposes, and what comes after it.</param>
    /// <param name="options">How to read.</param>
    /// <param name="isText">
    /// Whether zeros at the end of a file that is followed across rolls are room that nobody wrote to yet.
    /// </param>
    /// <param name="owner">Whose name an <see cref="ObjectDisposedException"/> bears.</param>
    public BlockSource(FileSource source, ReadAheadOptions options, bool isText, Type owner)
    {
        _file = source.First;
        _sequence = source.Sequence;
        _skipsRoom = isText && _sequence is not null;
        _mapping = options.MapBlocks ? new FileMapping(_file, owner) : null;
    }

    /// <summary>The path of the file, for messages.</summary>
    public string Path => _file.Path;

    /// <summary>The file's length now.</summary>
    public long Length => _file.Length;

    /// <summary>Which file it is; null when that is not known.</summary>
    public FileMark? Mark => _file.Mark;

    /// <summary>Tells the system how the file is going to be read, and returns the length that it holds for certain.</summary>
    public long Prepare()
    {
        // With room at its end, which may come at any time, a file may become shorter and lose nothing.
        long length = _skipsRoom ? 0 : _file.Length;
        _file.AdviseSequential();
        return length;
    }

    /// <summary>Reading begins where an earlier reader has stopped.</summary>
    public void Resume(FilePosition position) => _resumedAt = position.Check is null ? null : position;

    /// <summary>
    /// All of the file was given: from now on this is the next one, or the same one that was truncated. True when the rest of it
    /// could not be given, because it was overwritten.
    /// </summary>
    public bool Begin(ReadableFile next)
    {
        ReadableFile before = _file;
        bool wasOverwritten = _wasOverwritten;
        _wasOverwritten = false;
        _file = next;
        if (next == _successor)
        {
            _successor = null;
            before.Dispose();
        }

        (_beforeCount, _beforeEnd, _resumedAt) = (0, 0, null);
        return wasOverwritten;
    }

    /// <summary>
    /// Whether all of a block can be looked at: not when the end of the file was cut off below a mapped block.
    /// </summary>
    public bool IsWhole(ReadBlock block) => !block.IsMapped || block.End <= _file.Length;

    /// <summary>
    /// Reads what the system has in memory, and nothing else. Nothing of a file in a sequence: what is read there has to be
    /// looked at (<see cref="Fill"/>).
    /// </summary>
    public int ReadCached(Span<byte> destination, long position) =>
        _sequence is null && _resumedAt is null ? _file.ReadCachedAt(destination, position) : 0;

    /// <summary>Reads, waiting for the disk. As above.</summary>
    public int Read(Span<byte> destination, long position) =>
        _sequence is null && _resumedAt is null ? _file.ReadAt(destination, position) : 0;

    /// <summary>Fills a block; never throws.</summary>
    public FillOutcome Fill(ReadBlock block, long position, int length, long lengthSeen)
    {
        try
        {
            return FillOrFindNext(block, position, length, lengthSeen);
        }
        catch (Exception error)
        {
            // What was read, and could not be compared with what was read before, is read again.
            if (_sequence is not null && _beforeEnd != block.End)
                block.Count = 0;

            // It is the consumer's: it comes out of the call that gets to this place.
            return new FillOutcome(lengthSeen, IsAtEnd: false, error);
        }
    }

    /// <inheritdoc/>
    public void Dispose()
    {
        _mapping?.Dispose();
        _successor?.Dispose();
        _file.Dispose();
    }

    private FillOutcome FillOrFindNext(ReadBlock block, long position, int length, long lengthSeen)
    {
        bool isSecondLook = false;
        bool hasSeenZeros = false;
        for (int tries = 0; ; tries++)
        {
            // Asked before: what is read after the last byte was written is final.
            bool hasRoom = _skipsRoom && HasRoomAtEnd(_file);
            int count = block.Fill(_file, _mapping, position, length);
            if (_sequence?.IsReused(_file) == true)
                return Overwritten(block, lengthSeen, _sequence);

            // A writer that opens or closes the file makes room, or cuts it off: it may have come after the look. Zeros that are
            // there a second time, in a file that ends with text, are the file's own.
            if (_skipsRoom && !hasRoom && block.Span.Contains((byte)0) && (!hasSeenZeros || HasRoomAtEnd(_file)))
            {
                hasSeenZeros = true;
                continue;
            }

            bool hasMore = false;
            if (hasRoom)
            {
                int written = CountWritten(block.Span, isSecondLook);
                hasMore = block.Span[written..].ContainsAnyExcept((byte)0);
                if (written == 0 && hasMore)
                {
                    isSecondLook = true;
                    continue;
                }

                count = block.Count = written;
            }

            if (!IsBeforeAsItWas(position))
            {
                if (_sequence?.WasReused(_file) == true)
                    return Overwritten(block, lengthSeen, _sequence);
                block.Count = 0;
                if (_sequence is null)
                    return Truncated(block, lengthSeen, _file.Length);
                _wasOverwritten = true;
                return new FillOutcome(lengthSeen, IsAtEnd: true, Next: _file);
            }

            KeepBefore(block);
            if (count == length && block.End <= lengthSeen)
                return new FillOutcome(lengthSeen, IsAtEnd: false);

            // Beyond what was known: how much is there now?
            if (count > 0)
                lengthSeen = Math.Max(lengthSeen, block.End);
            long now = _file.Length;
            if (now < lengthSeen && IsGone(now, lengthSeen))
                return Truncated(block, lengthSeen, now);

            lengthSeen = _skipsRoom ? lengthSeen : Math.Max(lengthSeen, now);
            if (count == 0 && (hasRoom || now <= position) && _sequence is not null)
            {
                if (_successor is not null)
                    return new FillOutcome(lengthSeen, IsAtEnd: true, Next: _successor);

                // What was written before the next file got its first byte may have come since the read.
                _successor = _sequence.FindNext(_file);
                if (_successor is not null)
                    continue;
            }

            // Nothing, although the file is longer: it has grown since the read, or it is one of the system's (/sys), which
            // say a length that they do not have.
            if (hasRoom || count > 0 || now <= position || tries >= LooksMax)
                return new FillOutcome(lengthSeen, IsAtEnd: !hasMore && (hasRoom || count == 0 || now <= block.End));
        }
    }

    /// <summary>
    /// How much of what was read from a file with room at its end is what was written, and not room. A read copies page after
    /// page: it may have met one before, and the next one after it was written to, and then shows zeros before text. So the zeros
    /// are read once more. A writer goes forward, so those that are there after text after them was seen are the file's own.
    /// </summary>
    internal static int CountWritten(ReadOnlySpan<byte> read, bool isSecondLook)
    {
        int text = isSecondLook ? Math.Max(0, read.IndexOfAnyExcept((byte)0)) : 0;
        int zeros = read[text..].IndexOf((byte)0);
        return zeros < 0 ? read.Length : text + zeros;
    }

    /// <summary>What was not read yet is gone, as in a file that was deleted.</summary>
    private FillOutcome Overwritten(ReadBlock block, long lengthSeen, FileSequence sequence)
    {
        block.Count = 0;
        _wasOverwritten = true;
        _successor ??= sequence.FindNext(_file);
        return new FillOutcome(lengthSeen, IsAtEnd: true, Next: _successor);
    }

    private FillOutcome Truncated(ReadBlock block, long lengthSeen, long now)
    {
        if (_sequence is null)
        {
            FileTruncatedException error = new(Path, block.End, lengthSeen, now);
            return new FillOutcome(lengthSeen, IsAtEnd: false, error);
        }

        // What the file does not hold any more was read before. What it does hold is of its new content.
        if (now >= block.End)
            block.Count = 0;
        _beforeCount = 0;
        return new FillOutcome(lengthSeen, IsAtEnd: true, Next: block.Count == 0 ? _file : null);
    }

    /// <summary>Looked at after a read: then what was read is of the same content as what was read before.</summary>
    private bool IsBeforeAsItWas(long position)
    {
        Span<byte> now = stackalloc byte[_before.Length];
        if (_resumedAt is { } place && place.Offset == position)
        {
            now = now[..(int)Math.Min(position, now.Length)];
            return _file.ReadAt(now, position - now.Length) == now.Length && FilePosition.CheckOf(now, position) == place.Check;
        }

        if (_beforeCount == 0 || _beforeEnd != position)
            return true;
        now = now[.._beforeCount];
        return _file.ReadAt(now, position - _beforeCount) == _beforeCount && now.SequenceEqual(_before.AsSpan(0, _beforeCount));
    }

    private void KeepBefore(ReadBlock block)
    {
        if (block.Count == 0)
            return;
        _resumedAt = null;
        if (_sequence is null)
            return;
        if (_beforeEnd != block.Position)
            _beforeCount = 0;
        ReadOnlySpan<byte> bytes = block.Span[^Math.Min(block.Count, _before.Length)..];
        int kept = Math.Min(_beforeCount, _before.Length - bytes.Length);
        _before.AsSpan(_beforeCount - kept, kept).CopyTo(_before);
        bytes.CopyTo(_before.AsSpan(kept));
        _beforeCount = kept + bytes.Length;
        _beforeEnd = block.End;
    }

    /// <summary>
    /// Whether the file ends with a zero, which no text does: then what is written comes before it. False of an empty file.
    /// </summary>
    private static bool HasRoomAtEnd(ReadableFile file)
    {
        Span<byte> last = [1];
        long length = file.Length;
        return length > 0 && file.ReadAt(last, length - 1) == 1 && last[0] == 0;
    }

    /// <summary>Files of the system (/proc) say length 0 whatever they hold.</summary>
    private bool IsGone(long lengthNow, long lengthSeen)
    {
        Span<byte> one = stackalloc byte[1];
        return lengthNow > 0 || _file.ReadAt(one, lengthSeen - 1) == 0;
    }
}

/// <summary>What a read has found, beside the bytes in the block.</summary>
/// <param name="LengthSeen">The largest length that the file was seen to have.</param>
/// <param name="IsAtEnd">The read met the end of the file.</param>
/// <param name="Error">Why the place cannot be read.</param>
/// <param name="Next">All of the file was read, and this comes next: its successor, or itself where it was truncated.</param>
internal readonly record struct FillOutcome(
    long LengthSeen, bool IsAtEnd, Exception? Error = null, ReadableFile? Next = null);
