using MappedFileQueues.Platform;

namespace MappedFileQueues.Files.Reading;

/// <summary>The side that reads.</summary>
internal sealed partial class ReadPump
{
    /// <summary>The first read after opening or a seek; each one is four times the last, up to the block size.</summary>
    private const int FirstLength = 64 * 1024;

    private const int Growth = 4;

    /// <summary>
    /// What the system has in memory is copied in pieces of this: smaller ones are copied more slowly, and larger ones no faster
    /// (16.6 GB/s with 1 MiB and with 4, 12.0 with 256 KiB; docs/FILES.md).
    /// </summary>
    private const int CachedLengthMax = 1024 * 1024;

    private const int PageLength = 4096;

    /// <summary>So often a place is looked at again where the file gives nothing but says that it is longer.</summary>
    private const int LooksMax = 3;

    /// <summary>A thread that nobody has needed for so long ends, so that a forgotten stream can be collected.</summary>
    private static readonly TimeSpan s_idleLimit = TimeSpan.FromSeconds(5);

    private static readonly TimeSpan s_firstPoll = TimeSpan.FromMilliseconds(1);

    private readonly int _headroom;
    private readonly FileMapping? _mapping;
    private readonly bool _usesCache;
    private readonly bool _bypassesCache;
    private readonly int _blockLengthMax;
    private readonly int _blockCountMax;
    private readonly long _askAhead;
    private readonly TimeSpan _followInterval;
    private readonly Stack<ReadBlock> _free;

    private Thread? _thread;
    private Exception? _error;

    /// <summary>What came after the file, found and not begun yet; only the filler's, and its end.</summary>
    private ReadableFile? _successor;

    /// <summary>
    /// The bytes before a position, as they were read; only the filler's. A file that was truncated and has grown beyond the
    /// reader's place since holds others there.
    /// </summary>
    private readonly byte[] _before = new byte[64];

    private int _beforeCount;
    private long _beforeEnd;

    /// <summary>All of the file was read, and this comes next: its successor, or itself where it was truncated.</summary>
    private ReadableFile? _next;

    private int _blockCount;
    private long _nextPosition;
    private int _nextLength;
    private TimeSpan _nextPoll = s_firstPoll;

    /// <summary>Up to this position the system was asked to fetch; only the filler's.</summary>
    private long _askedTo;

    /// <summary>The largest length seen: a file that ends before it was truncated.</summary>
    private long _lengthSeen;

    /// <summary>A read that a seek has overtaken is of an older epoch, and of no use.</summary>
    private int _epoch;

    private bool _isFilling;

    /// <summary>So far the system had everything in memory, since the beginning or a seek.</summary>
    private bool _isCached;

    /// <summary>There is a point in reading ahead: a whole block had to be waited for since the beginning or a seek.</summary>
    private bool _isAhead;

    private bool _isFollowing;
    private bool _isWanted;

    /// <summary>The last read met the end of the file; nobody reads on until somebody wants more.</summary>
    private bool _isAtEnd;

    /// <summary>
    /// Each call of the consumer is a new question; the end counts as its answer only when a read met it that began after the
    /// question. So what another thread appended before the call is never missed.
    /// </summary>
    private int _ask;

    private int _answer;

    private bool CanFill =>
        !_isFilling && !_isAtEnd && !_isDisposed && _error is null && (_free.Count > 0 || _blockCount < _blockCountMax);

    private bool Polls => _isAtEnd && _isFollowing && _isWanted && _error is null && _next is null;

    /// <summary>Goes on from a position; what was read ahead, and the error that was met there, are of no use.</summary>
    private void Restart(long position)
    {
        while (_filled.TryDequeue(out ReadBlock? block))
            _free.Push(block);
        _error = null;
        _next = null;
        _epoch++;
        _nextPosition = position;
        _nextLength = Math.Min(FirstLength, _blockLengthMax);
        _isCached = _usesCache;
        _isAhead = false;
        _isAtEnd = false;
    }

    /// <summary>
    /// A mapped block of which the end was cut off since must not be looked into: what is left of it is found anew.
    /// </summary>
    private bool IsWhole(ReadBlock block) => !block.IsMapped || block.End <= _file.Length;

    private void StartThread()
    {
        if (_thread is not null)
            return;
        var thread = new Thread(static pump => ((ReadPump)pump!).FillAlways()) { IsBackground = true, Name = "mfq read ahead" };
        thread.UnsafeStart(this);
        // Not before: without it, because the system gave none, the next read tries again, and nobody waits for its end.
        _thread = thread;
    }

    /// <summary>The thread: reads while there is room, and looks for growth while a consumer waits for it.</summary>
    private void FillAlways()
    {
        lock (_gate)
        {
            while (!_isDisposed)
            {
                if (CanFill && (_isAhead || _isWanted))
                {
                    FillOne();
                }
                else if (Polls)
                {
                    // Whoever wakes this early (a seek, the end of following) makes it look early, which does no harm.
                    Monitor.Wait(_gate, _nextPoll);
                    if (!Polls)
                        continue;
                    _isAtEnd = false;
                    _nextPoll = _nextPoll * 2 < _followInterval ? _nextPoll * 2 : _followInterval;
                }
                else if (!Monitor.Wait(_gate, s_idleLimit) && !_isWanted && !(CanFill && _isAhead))
                {
                    break;
                }
            }

            _thread = null;
        }
    }

    /// <summary>Reads one block. The lock is held before and after, not during the read.</summary>
    private void FillOne()
    {
        int length = LengthOfNext(_blockLengthMax);
        (long position, long lengthSeen, int epoch, int ask) = (_nextPosition, _lengthSeen, _epoch, _ask);
        ReadBlock block = TakeFree();
        _isFilling = true;
        Monitor.Exit(_gate);
        Outcome outcome;
        try
        {
            outcome = Read(block, position, length, lengthSeen);
        }
        finally
        {
            Monitor.Enter(_gate);
            _isFilling = false;
        }

        if (epoch == _epoch)
            Accept(block, length, outcome, ask);
        else
            _free.Push(block);
        WakeAll();
    }

    private void Accept(ReadBlock block, int length, in Outcome outcome, int ask)
    {
        bool isFull = block.Count == length;
        if (block.Count > 0)
        {
            _filled.Enqueue(block);
            _nextPosition = block.End;
            _nextPoll = s_firstPoll;
        }
        else
        {
            _free.Push(block);
        }

        Grow(block, length);
        _lengthSeen = outcome.LengthSeen;
        _error = outcome.Error;
        _answer = ask;
        _isAtEnd = outcome.IsAtEnd && (ask == _ask || !_isWanted);
        _next = _isAtEnd ? outcome.Next : null;

        // The consumer waited for a whole block: from here on there is something to read ahead.
        _isAhead |= isFull;
        if (_isAhead && CanFill)
            StartThread();
    }

    /// <summary>
    /// Makes a block of what the system has in memory; called by the consumer, the lock as in <see cref="FillOne"/>.
    /// </summary>
    private void FillCached()
    {
        int length = LengthOfNext(CachedLengthMax);
        ReadBlock block = TakeFree();
        (block.Position, block.Count) = (_nextPosition, 0);
        try
        {
            block.Count = ReadCached(block.Reserve(length));
        }
        finally
        {
            if (block.Count > 0)
                _filled.Enqueue(block);
            else
                _free.Push(block);
        }

        Grow(block, length);
    }

    /// <summary>Reads what the system has in memory, the lock as in <see cref="FillOne"/>.</summary>
    private int ReadCached(Span<byte> destination)
    {
        // A read that may not wait begins to bring into memory what is not there.
        bool mayRead = !_bypassesCache || _file.IsCached(_nextPosition);
        int count = mayRead ? ReadHere(destination, waits: false) : 0;
        _isCached = count == destination.Length;
        return count;
    }

    /// <summary>
    /// Reads what the file is known to hold, waiting for the disk; the lock as in <see cref="FillOne"/>. What goes wrong here is
    /// met again, and kept for the caller, by the block that is read next.
    /// </summary>
    private int ReadFromDisk(Span<byte> destination)
    {
        int length = (int)Math.Min(destination.Length, Math.Max(0, _lengthSeen - _nextPosition));
        try
        {
            return ReadHere(destination[..length], waits: true);
        }
        catch (IOException)
        {
            WakeAll();
            return 0;
        }
    }

    /// <summary>
    /// Reads by the consumer's own thread, the lock as in <see cref="FillOne"/>. No seek comes meanwhile: the consumer is in a
    /// call.
    /// </summary>
    private int ReadHere(Span<byte> destination, bool waits)
    {
        long position = _nextPosition;
        int count = 0;
        _isFilling = true;
        Monitor.Exit(_gate);
        try
        {
            count = waits ? _file.ReadAt(destination, position) : _file.ReadCachedAt(destination, position);
        }
        finally
        {
            Monitor.Enter(_gate);
            _isFilling = false;
        }

        _nextPosition += count;
        _lengthSeen = Math.Max(_lengthSeen, count > 0 ? _nextPosition : 0);
        WakeAll();
        return count;
    }

    /// <summary>
    /// How much to read next: never much more than the file is known to hold, so that small files take little memory.
    /// </summary>
    private int LengthOfNext(int lengthMax)
    {
        int length = Math.Min(_nextLength, lengthMax);
        if (_bypassesCache)
        {
            // The read after it begins at a whole page, and so can go past the cache.
            length -= (int)(_nextPosition % PageLength);
        }

        // One byte more than the rest: a read that is not full has met the end.
        long rest = Math.Max(_lengthSeen - _nextPosition, 0) + 1;
        return rest < length ? (int)((rest + PageLength - 1) & -PageLength) : length;
    }

    private void Grow(ReadBlock block, int length)
    {
        if (block.Count == length && length == _nextLength)
            _nextLength = (int)Math.Min((long)_nextLength * Growth, _blockLengthMax);
    }

    private ReadBlock TakeFree()
    {
        if (_free.TryPop(out ReadBlock? block))
            return block;
        _blockCount++;
        return new ReadBlock(_headroom, _bypassesCache);
    }

    /// <summary>Not under the lock; never throws.</summary>
    private Outcome Read(ReadBlock block, long position, int length, long lengthSeen)
    {
        try
        {
            if (_askAhead > 0)
                AskAhead(position, position + length + _askAhead);
            for (int tries = 0; ; tries++)
            {
                // Asked before: what is read after the last byte was written is final.
                bool hasRoom = _isText && HasRoomAtEnd(_file);
                int count = block.Fill(_file, _mapping, position, length);
                if (hasRoom)
                    count = block.Count = block.Span.LastIndexOfAnyExcept((byte)0) + 1;
                if (_sequence is not null && !IsBeforeAsItWas(position))
                {
                    block.Count = 0;
                    return new Outcome(lengthSeen, true, null, _file);
                }

                KeepBefore(block);
                if (count == length && block.End <= lengthSeen)
                    return new Outcome(lengthSeen, false, null);

                // Beyond what was known: how much is there now?
                if (count > 0)
                    lengthSeen = Math.Max(lengthSeen, block.End);
                long now = _file.Length;
                if (now < lengthSeen && IsGone(now, lengthSeen))
                {
                    if (_sequence is null)
                        return new Outcome(lengthSeen, false, new FileTruncatedException(Path, block.End, lengthSeen, now));

                    // What the file does not hold any more was read before. What it does hold is of its new content.
                    if (now >= block.End)
                        block.Count = 0;
                    _beforeCount = 0;
                    return new Outcome(lengthSeen, true, null, block.Count == 0 ? _file : null);
                }

                lengthSeen = hasRoom ? lengthSeen : Math.Max(lengthSeen, now);
                if (count == 0 && (hasRoom || now <= position) && _sequence is not null)
                {
                    if (_successor is not null)
                        return new Outcome(lengthSeen, true, null, _successor);

                    // What was written before the next file got its first byte may have come since the read.
                    _successor = _sequence.FindNext(_file);
                    if (_successor is not null)
                        continue;
                }

                // Nothing, although the file is longer: it has grown since the read, or it is one of the system's (/sys), which
                // say a length that they do not have.
                if (hasRoom || count > 0 || now <= position || tries >= LooksMax)
                    return new Outcome(lengthSeen, hasRoom || count == 0 || now <= block.End, null);
            }
        }
        catch (Exception error)
        {
            // It is the consumer's: it comes out of the call that gets to this place.
            return new Outcome(lengthSeen, false, error);
        }
    }

    /// <summary>Looked at after a read: then what was read is of the same content as what was read before.</summary>
    private bool IsBeforeAsItWas(long position)
    {
        if (_beforeCount == 0 || _beforeEnd != position)
            return true;
        Span<byte> now = stackalloc byte[_before.Length];
        now = now[.._beforeCount];
        return _file.ReadAt(now, position - _beforeCount) == _beforeCount && now.SequenceEqual(_before.AsSpan(0, _beforeCount));
    }

    private void KeepBefore(ReadBlock block)
    {
        if (_sequence is null || block.Count == 0)
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

    private void AskAhead(long from, long to)
    {
        bool isFar = _askedTo < from || _askedTo > to;
        long start = isFar ? from : _askedTo;
        if (to - start < _askAhead / 2 && !isFar)
            return;
        _file.AdviseWillNeed(start, to - start);
        _askedTo = to;
    }

    private readonly record struct Outcome(long LengthSeen, bool IsAtEnd, Exception? Error, ReadableFile? Next = null);
}
