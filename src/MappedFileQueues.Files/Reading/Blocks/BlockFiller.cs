using System.Runtime.ExceptionServices;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Files.Reading.Blocks;

/// <summary>
/// The queue of blocks that were read and not taken yet, and what fills it. One thread at a time reads: the filler's own, or the
/// consumer, which would have to wait for it otherwise; so files of one small block never start a thread. The lock is held in
/// every call, and released while the file is read.
/// <para>The end of a file may move. Each call of the consumer is a new question, and the end counts as its answer only when a
/// read met it that began after the question: so what another thread appended before the call is never missed.</para>
/// </summary>
internal sealed class BlockFiller
{
    /// <summary>A shorter read is served from a block: a call of the system for each would cost more than the copy.</summary>
    private const int DirectMin = 64 * 1024;

    /// <summary>
    /// What the system has in memory is copied in pieces of this: smaller ones are copied more slowly, and larger ones no faster
    /// (16.6 GB/s with 1 MiB and with 4, 12.0 with 256 KiB; November 2026).
    /// </summary>
    private const int CachedLengthMax = 1024 * 1024;

    /// <summary>A thread that nobody has needed for so long ends, so that a forgotten stream can be collected.</summary>
    private static readonly TimeSpan s_idleLimit = TimeSpan.FromSeconds(5);

    private static readonly TimeSpan s_firstPoll = TimeSpan.FromMilliseconds(1);

    private readonly BlockSignal _signal;
    private readonly object _gate;
    private readonly Action _enter;
    private readonly BlockSource _source;
    private readonly ReadPlan _plan;
    private readonly ReadMode _firstMode;
    private readonly int _headroom;
    private readonly int _blockCountMax;
    private readonly TimeSpan _followInterval;
    private readonly Queue<ReadBlock> _filled;
    private readonly Stack<ReadBlock> _free;

    private ReadMode _mode;
    private Thread? _thread;
    private int _blockCount;
    private bool _isFilling;
    private bool _hasEnded;

    /// <summary>A read that a seek has overtaken is of an older epoch, and of no use.</summary>
    private int _epoch;

    // What the last read found where it got no further.
    private bool _isAtEnd;
    private Exception? _error;
    private ReadableFile? _next;

    // The question of the consumer, and the last one that a read has answered.
    private bool _isWanted;
    private int _question;
    private int _answered;

    private bool _isFollowing;
    private TimeSpan _nextPoll = s_firstPoll;

    /// <param name="signal">Its lock is held in each call.</param>
    /// <param name="source">What is read.</param>
    /// <param name="options">How to read.</param>
    /// <param name="headroom">Bytes kept free before the data of each block.</param>
    /// <param name="usesCache">Whether the consumer copies by itself what the system has in memory.</param>
    public BlockFiller(BlockSignal signal, BlockSource source, ReadAheadOptions options, int headroom, bool usesCache)
    {
        (_signal, _source, _headroom) = (signal, source, headroom);
        _gate = signal.Gate;
        _enter = () => Monitor.Enter(_gate);
        _blockCountMax = options.BlocksAhead + 1;
        _isFollowing = options.Follow;
        _followInterval = options.FollowInterval;
        _mode = _firstMode = usesCache && !options.MapBlocks ? ReadMode.FromCache : ReadMode.OnDemand;
        _plan = new ReadPlan(options.BlockSize) { LengthSeen = source.Prepare() };
        _free = new Stack<ReadBlock>(_blockCountMax);
        _filled = new Queue<ReadBlock>(_blockCountMax);
    }

    private enum ReadMode
    {
        /// <summary>So far the system had everything in memory, since the beginning or a seek: the consumer copies.</summary>
        FromCache,

        /// <summary>A block is read when it is wanted.</summary>
        OnDemand,

        /// <summary>A whole block had to be waited for: from here on the next ones are read before they are wanted.</summary>
        Ahead,
    }

    /// <summary>Whether a block can be read now; not beyond an error or the end.</summary>
    private bool CanFill =>
        !_isFilling && !_isAtEnd && !_hasEnded && _error is null && (_free.Count > 0 || _blockCount < _blockCountMax);

    private bool HasToFill => CanFill && (_mode == ReadMode.Ahead || _isWanted);

    private bool Polls => _isAtEnd && _isFollowing && _isWanted && _error is null && _next is null;

    /// <summary>A call of the consumer begins: an end that was met before is looked at again.</summary>
    public void BeginCall() => _question++;

    /// <summary>The call ends.</summary>
    public void EndCall() => _isWanted = false;

    /// <summary>True with a block, or with null at the end; else the consumer has to wait.</summary>
    public bool TryTake(out ReadBlock? block)
    {
        if (_filled.TryPeek(out block))
        {
            if (_source.IsWhole(block))
                return _filled.TryDequeue(out block);

            // The end of a mapped block was cut off since. What is left of it is found anew.
            Restart(block.Position);
            return false;
        }

        if (_error is { } error)
        {
            if (MayPass(error))
                _error = null;
            ExceptionDispatchInfo.Throw(error);
        }

        if (_next is not null)
        {
            bool wasOverwritten = _source.Begin(_next);
            _nextPoll = s_firstPoll;
            Restart(0);
            _plan.LengthSeen = _source.Prepare();
            block = wasOverwritten ? ReadBlock.NextFileAfterLoss : ReadBlock.NextFile;
            return true;
        }

        return _isAtEnd && _answered == _question && !_isFollowing;
    }

    /// <summary>
    /// Nothing is wrong with the file where the process lacked a descriptor or memory, or where its name led to nothing that can
    /// be opened for now, as while another program makes the next file: the next call looks again.
    /// </summary>
    private static bool MayPass(Exception error) => error is OutOfMemoryException
        || (error is QueueDiskException disk && (DiskErrors.IsShortage(disk.Errno)
            || disk.Errno is DiskErrors.ELOOP or DiskErrors.EACCES or DiskErrors.EPERM));

    /// <summary>The consumer waits for a block. True when its own thread has filled one meanwhile, or may have.</summary>
    /// <param name="mayWait">Whether the consumer's thread may wait for the disk.</param>
    public bool TryFill(bool mayWait)
    {
        bool mustLook = _isAtEnd && _answered != _question;
        if (mustLook)
            _isAtEnd = false;

        // Only what is new wakes the thread: a call that waits at the end comes by after each look, and would make the next look
        // begin at once, again and again.
        if (mustLook || !_isWanted)
            Monitor.PulseAll(_gate);
        _isWanted = true;
        if (CanFill && _mode == ReadMode.FromCache)
        {
            FillFromCache();
            return true;
        }

        if (CanFill && mayWait)
        {
            FillOne();
            return true;
        }

        StartThread();
        return false;
    }

    /// <summary>
    /// Reads into the caller's own memory what is long or the rest of the file, as long as the system has the bytes in memory, or
    /// the caller may wait for the disk: a block in between would only be a second copy, and the system itself reads ahead of a
    /// program that reads one long piece after the other. 0 when not, which says nothing about the file.
    /// </summary>
    public int ReadDirectly(Span<byte> destination, bool mayWait)
    {
        bool isWorthIt = destination.Length >= DirectMin || destination.Length > _plan.LengthSeen - _plan.Position;
        if (!isWorthIt || !CanFill || _filled.Count > 0)
            return 0;
        int count = _mode == ReadMode.FromCache ? ReadFromCache(destination) : 0;
        return count == 0 && mayWait && _mode != ReadMode.Ahead ? ReadFromDisk(destination) : count;
    }

    /// <summary>A block that was taken can be read into again.</summary>
    public void Release(ReadBlock block)
    {
        _free.Push(block);
        TryReadAhead();
        Monitor.PulseAll(_gate);
    }

    /// <summary>
    /// Goes to a position: takes the block that holds it, when it is among those that were read ahead; else null, and the next
    /// block begins there. An error that an earlier read met is forgotten with what was read.
    /// </summary>
    public ReadBlock? MoveTo(long position)
    {
        while (_filled.TryDequeue(out ReadBlock? block))
        {
            if (position >= block.Position && position < block.End && _source.IsWhole(block))
                return block;
            _free.Push(block);
        }

        if (_error is FileTruncatedException)
            _plan.LengthSeen = 0;
        Restart(position);
        _signal.WakeAll();
        return null;
    }

    /// <summary>The file was seen to be this long.</summary>
    public void HasBeenAt(long position) => _plan.LengthSeen = Math.Max(_plan.LengthSeen, position);

    /// <summary>From now on the end of the file is the end.</summary>
    public void StopFollowing()
    {
        _isFollowing = false;

        // What was looked at before this call is no answer: a writer may have appended just before it.
        _question++;
        _signal.WakeAll();
    }

    /// <summary>No read begins any more. Waits for the one under way, and returns the thread, which ends.</summary>
    public Thread? End()
    {
        _hasEnded = true;
        _signal.WakeAll();
        Uninterrupted.Run(AwaitRead);
        return _thread;
    }

    private void AwaitRead()
    {
        while (_isFilling)
            Monitor.Wait(_gate);
    }

    /// <summary>Goes on from a position; what was read ahead, and what was met there, are of no use.</summary>
    private void Restart(long position)
    {
        while (_filled.TryDequeue(out ReadBlock? block))
            _free.Push(block);
        (_error, _next, _isAtEnd) = (null, null, false);
        _epoch++;
        _mode = _firstMode;
        _plan.Restart(position);
    }

    private void StartThread()
    {
        if (_thread is not null)
            return;

        // Assigned after the start: where the system gives no thread, the next read tries again, and nobody waits for its end.
        _thread = BackgroundThread.Start(Run, "read ahead");
    }

    /// <summary>
    /// Where the system gives no thread, nothing is read ahead, and the consumer's own thread reads what it may wait for.
    /// </summary>
    private void TryReadAhead()
    {
        if (!CanFill || _mode != ReadMode.Ahead)
            return;
        try
        {
            StartThread();
        }
        catch (MappedFileQueueException)
        {
            // A call that cannot do without it says so.
        }
    }

    /// <summary>The thread: reads while there is room, and looks for growth while a consumer waits for it.</summary>
    private void Run()
    {
        lock (_gate)
        {
            while (!_hasEnded)
            {
                if (HasToFill)
                {
                    FillOne();
                }
                else if (Polls)
                {
                    // A change that wakes this early (a seek, the end of following) makes it look early, which does no harm.
                    Monitor.Wait(_gate, _nextPoll);
                    if (!Polls)
                        continue;
                    _isAtEnd = false;
                    _nextPoll = _nextPoll * 2 < _followInterval ? _nextPoll * 2 : _followInterval;
                }
                else if (!Monitor.Wait(_gate, s_idleLimit) && !_isWanted && !HasToFill)
                {
                    break;
                }
            }

            _thread = null;
        }
    }

    /// <summary>Reads one block.</summary>
    private void FillOne()
    {
        int length = _plan.NextLength();
        (long position, long lengthSeen, int epoch, int question) = (_plan.Position, _plan.LengthSeen, _epoch, _question);
        ReadBlock block = TakeFree();
        FillOutcome outcome;
        BeginFilling();
        try
        {
            outcome = _source.Fill(block, position, length, lengthSeen);
        }
        finally
        {
            EndFilling();
        }

        if (epoch == _epoch)
            Accept(block, length, outcome, question);
        else
            _free.Push(block);
        _signal.WakeAll();
    }

    private void Accept(ReadBlock block, int length, in FillOutcome outcome, int question)
    {
        Keep(block, length);
        if (block.Count > 0)
        {
            _plan.Advance(block.Count);
            _nextPoll = s_firstPoll;
        }

        _plan.LengthSeen = outcome.LengthSeen;
        _error = outcome.Error;
        _answered = question;
        _isAtEnd = outcome.IsAtEnd && (question == _question || !_isWanted);
        _next = _isAtEnd ? outcome.Next : null;
        if (block.Count == length && _mode == ReadMode.OnDemand)
            _mode = ReadMode.Ahead;
        TryReadAhead();
    }

    /// <summary>Makes a block of what the system has in memory; by the consumer.</summary>
    private void FillFromCache()
    {
        int length = _plan.NextLength(CachedLengthMax);
        ReadBlock block = TakeFree();
        (block.Position, block.Count) = (_plan.Position, 0);
        try
        {
            block.Count = ReadFromCache(block.Reserve(length));
        }
        finally
        {
            Keep(block, length);
        }
    }

    /// <summary>Copies what the system has in memory; by the consumer.</summary>
    private int ReadFromCache(Span<byte> destination)
    {
        int count = ReadByConsumer(destination, waits: false);
        if (count < destination.Length && _mode == ReadMode.FromCache)
            _mode = ReadMode.OnDemand;
        return count;
    }

    /// <summary>
    /// Reads what the file is known to hold, waiting for the disk; by the consumer. What goes wrong here is met again, and kept
    /// for the caller, by the block that is read next.
    /// </summary>
    private int ReadFromDisk(Span<byte> destination)
    {
        int length = (int)Math.Min(destination.Length, Math.Max(0, _plan.LengthSeen - _plan.Position));
        try
        {
            return ReadByConsumer(destination[..length], waits: true);
        }
        catch (IOException)
        {
            _signal.WakeAll();
            return 0;
        }
    }

    /// <summary>No seek comes meanwhile: the consumer is in a call.</summary>
    private int ReadByConsumer(Span<byte> destination, bool waits)
    {
        long position = _plan.Position;
        int count = 0;
        BeginFilling();
        try
        {
            count = waits ? _source.Read(destination, position) : _source.ReadCached(destination, position);
        }
        finally
        {
            EndFilling();
        }

        _plan.Advance(count);
        _plan.LengthSeen = Math.Max(_plan.LengthSeen, count > 0 ? _plan.Position : 0);
        _signal.WakeAll();
        return count;
    }

    /// <summary>This thread reads, without the lock, until <see cref="EndFilling"/>.</summary>
    private void BeginFilling()
    {
        _isFilling = true;
        Monitor.Exit(_gate);
    }

    private void EndFilling()
    {
        // An interrupt must not leave it marked as filling, and without the lock.
        Uninterrupted.Run(_enter);
        _isFilling = false;
    }

    private ReadBlock TakeFree()
    {
        if (_free.TryPop(out ReadBlock? block))
            return block;
        _blockCount++;
        return new ReadBlock(_headroom);
    }

    private void Keep(ReadBlock block, int length)
    {
        if (block.Count > 0)
            _filled.Enqueue(block);
        else
            _free.Push(block);
        _plan.Grow(block.Count, length);
    }
}
