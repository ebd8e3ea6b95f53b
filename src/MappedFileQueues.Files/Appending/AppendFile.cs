using MappedFileQueues.Platform;

namespace MappedFileQueues.Files.Appending;

/// <summary>
/// One file that is being appended to: its room ahead, its writes, its end. Zeros may be after what was written while it is
/// open (see <see cref="FilePreallocation"/>); <see cref="Cut"/> takes them away.
/// <para>The buffers count positions from where they began this file. That is its beginning, except after a roll that could not
/// be done, and after another program has truncated the file (logrotate's copytruncate): then the file continues at its end, and
/// nothing is written before that again.</para>
/// </summary>
internal sealed class AppendFile : IDisposable
{
    /// <summary>
    /// How many bytes are written before the disk is told to begin: a flush then finds little left to do. `lines_1_default` took
    /// 85 to 114 ns a line without this, and 54 with it.
    /// </summary>
    private const long WriteBackStep = 8 * 1024 * 1024;

    private readonly PlatformFile _file;
    private readonly AppendFileOptions _options;
    private readonly bool _writesBack;
    private long _roomEnd;
    private long _writtenBack;

    /// <summary>The place in the file of the buffers' position 0; below 0 after a truncation.</summary>
    private long _start;

    /// <summary>What is before this place is done with: a block that is written again begins here at the earliest.</summary>
    private long _floor;
    private bool _givesRoom;

    /// <summary>Takes over an open file whose room already reaches to <paramref name="roomEnd"/>.</summary>
    public AppendFile(PlatformFile file, AppendFileOptions options, long roomEnd, long end = 0)
    {
        End = end;
        _file = file;
        _options = options;
        _roomEnd = roomEnd;
        _givesRoom = options.Preallocation != FilePreallocation.None;
        _writesBack = options.Durability != AppendDurability.PageCache;
    }

    /// <summary>Where the file ends, in bytes: after what was written. Room may be after it.</summary>
    public long End { get; private set; }

    /// <summary>The full path.</summary>
    public string Path => _file.Path;

    /// <inheritdoc cref="PlatformFile.Identity"/>
    public FileIdentity Identity => _file.Identity;

    /// <inheritdoc cref="PlatformFile.NoteName"/>
    public void NoteName(string path) => _file.NoteName(path);

    /// <summary>
    /// The true length of a file that a process may have left in the middle of a write: the length without the zeros at its end.
    /// Before <paramref name="roomStart"/> no zero is room; null: the length is true.
    /// </summary>
    public static long FindEnd(PlatformFile file, long? roomStart)
    {
        long length = file.Length;
        if (roomStart is not { } floor)
            return length;
        byte[] chunk = new byte[64 * 1024];
        while (length > floor)
        {
            // Chunks end where blocks do, so that only the first look backwards is a short one.
            long start = Math.Max((length - 1) / chunk.Length * chunk.Length, floor);
            int count = file.ReadAt(chunk.AsSpan(0, (int)(length - start)), start);
            int last = chunk.AsSpan(0, count).LastIndexOfAnyExcept((byte)0);
            if (last >= 0)
                return start + last + 1;
            length = start;
        }

        return length;
    }

    /// <summary>Sets the mark that says where the zeros of this file begin.</summary>
    public void MarkRoom(RoomMark mark, bool isDurable) => mark.Set(_file, End, isDurable);

    /// <summary>Reads what is at a position, for the part of the last block that will be written again.</summary>
    public void Read(Span<byte> destination, long position)
    {
        int count = _file.ReadAt(destination, position);
        if (count < destination.Length)
            throw new IOException($"The file became shorter while it was opened: path={Path}, length={position + count}.");
    }

    /// <summary>Makes room up to <paramref name="end"/> and a step beyond, unless it is there.</summary>
    public void MakeRoom(long end)
    {
        while (_givesRoom && _roomEnd < end)
        {
            long start = _roomEnd;
            long length = Math.Max(_options.PreallocationStep, AppendFileOptions.BlockLength);
            if (start < _options.RollLength)
                length = Math.Min(length, _options.RollLength - start);
            try
            {
                GiveRoom(start, length);
                _roomEnd = start + length;
            }
            catch (QueueDiskException error) when (DiskErrors.IsFull(error.Errno) || error.Errno == DiskErrors.EFBIG)
            {
                // Room ahead is a convenience. The write itself finds out whether there is room for it.
                _givesRoom = false;
            }
        }
    }

    /// <summary>Overwrites old content with zeros: a reader must never take it for new.</summary>
    public void Clear()
    {
        long length = _file.Length;
        ZeroFill.Write(_file, 0, length);
        _roomEnd = length;
    }

    /// <summary>The next file cannot be begun: the buffers do so, and this file takes what is theirs.</summary>
    public void Continue() => _start = _floor = End;

    /// <summary>What the buffers hold is written up to this position.</summary>
    public void HasWritten(long position) => End = _start + position;

    /// <summary>Writes at a position.</summary>
    public void Write(ReadOnlySpan<byte> bytes, long position)
    {
        FollowTruncation();
        long place = PlaceOf(ref bytes, position);
        long end = place + bytes.Length;
        MakeRoom(end);
        _file.WriteAt(bytes, place);
        long whole = end / WriteBackStep * WriteBackStep;
        if (!_writesBack || whole <= _writtenBack)
            return;
        _file.StartWriteBack(_writtenBack, whole - _writtenBack);
        _writtenBack = whole;
    }

    /// <summary>
    /// After a failed write: writes as many of the bytes as the file takes, from the first one on, and returns how many. Tries
    /// smaller and smaller pieces; where the failed call came further, this writes the same bytes again.
    /// </summary>
    public int WriteWhatFits(ReadOnlySpan<byte> bytes, long position)
    {
        int done = bytes.Length;
        position = PlaceOf(ref bytes, position);
        int skipped = done - bytes.Length;
        done = 0;
        for (int piece = AppendFileOptions.BlockLength; piece > 0 && done < bytes.Length;)
        {
            int count = Math.Min(piece, bytes.Length - done);
            try
            {
                _file.WriteAt(bytes.Slice(done, count), position + done);
                done += count;
            }
            catch (QueueDiskException)
            {
                piece /= 2;
            }
        }

        return skipped + done;
    }

    /// <summary>fdatasync.</summary>
    public void Sync() => _file.Sync();

    /// <summary>Gives back the room after the end.</summary>
    public void Cut()
    {
        FollowTruncation();

        // The room after the end of a file goes too when the length is set to what it is.
        bool hasRoomAfterEnd = _options.Preallocation == FilePreallocation.Fallocate && _roomEnd > End;
        if (hasRoomAfterEnd || _file.Length != End)
            _file.SetLength(End);
        _roomEnd = End;
    }

    public void Dispose() => _file.Dispose();

    /// <summary>
    /// Continues at the end of a file that another program has made shorter; what that cut off was written, and is its own
    /// affair. Writing at the old place would leave a hole before it, as would giving the file its old length. A truncation
    /// between this look and the write still does.
    /// </summary>
    private void FollowTruncation()
    {
        long length = _file.Length;
        if (length >= End)
            return;
        long end = LineEnd.Append(_file, _options, length);
        _start += end - End;
        _floor = _roomEnd = End = end;
        _writtenBack = Math.Min(_writtenBack, end);
    }

    /// <summary>The place in the file of a position of the buffers; takes from the bytes those that are done with.</summary>
    private long PlaceOf(ref ReadOnlySpan<byte> bytes, long position)
    {
        long place = _start + position;
        if (place >= _floor)
            return place;
        bytes = bytes[(int)Math.Min(_floor - place, bytes.Length)..];
        return _floor;
    }

    private void GiveRoom(long start, long length)
    {
        if (_options.Preallocation == FilePreallocation.Fallocate)
            _givesRoom = _file.TryReserve(start, length);
        else if (_options.Preallocation == FilePreallocation.WrittenZeros || !_file.TryZeroRange(start, length))
            ZeroFill.Write(_file, start, start + length);
    }
}
