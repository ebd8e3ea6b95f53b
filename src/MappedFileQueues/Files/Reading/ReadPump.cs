using System.Runtime.CompilerServices;
using System.Runtime.ExceptionServices;
using System.Threading.Tasks.Sources;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Files.Reading;

/// <summary>
/// Reads a file block by block, ahead of one consumer. One thread at a time reads: the pump's own, or a consumer that would have
/// to wait for it otherwise; so files of one small block never start a thread. What is shared lies under one lock; a block is in
/// nobody's reach but of who took it off its queue. This file: the consumer's side.
/// </summary>
internal sealed partial class ReadPump : IValueTaskSource, IDisposable
{
    /// <summary>A shorter read is served from a block: a call of the system for each would cost more than the copy.</summary>
    private const int DirectMin = 64 * 1024;

    private readonly object _gate = new();
    private readonly FileSequence? _sequence;
    private readonly bool _isText;
    private readonly Type _owner;
    private readonly Queue<ReadBlock> _filled;

    /// <summary>Changes under the lock, in a call of the consumer, while nobody reads.</summary>
    private ReadableFile _file;

    private ManualResetValueTaskSourceCore<bool> _wait = new() { RunContinuationsAsynchronously = true };
    private bool _isWaitArmed;
    private bool _isInCall;
    private bool _isDisposed;

    /// <param name="source">The file, which becomes the pump's, and what comes after it.</param>
    /// <param name="options">How to read.</param>
    /// <param name="headroom">Bytes kept free before the data of each block.</param>
    /// <param name="usesCache">
    /// Whether the consumer reads by itself what the system has in memory: that is as fast as the copy, and needs no second
    /// processor. Not for one that does a lot with each block: then reading ahead is worth it all the same.
    /// </param>
    /// <param name="isText">
    /// Whether zeros at the end of a file that is followed across rolls are room that nobody wrote to yet.
    /// </param>
    /// <param name="owner">Whose name an <see cref="ObjectDisposedException"/> bears.</param>
    public ReadPump(FileSource source, ReadAheadOptions options, int headroom, bool usesCache, bool isText, Type owner)
    {
        ReadableFile file = source.First;
        _file = file;
        _sequence = source.Sequence;
        _isText = isText && _sequence is not null;
        _owner = owner;
        _headroom = headroom;
        _mapping = options.MapBlocks ? new FileMapping(file) : null;
        _usesCache = usesCache && !options.MapBlocks;
        _isCached = _usesCache;
        _bypassesCache = options.BypassCache;
        _blockLengthMax = options.BlockSize;
        _blockCountMax = options.BlocksAhead + 1;
        _askAhead = _bypassesCache ? 0 : options.AskAhead;
        _isFollowing = options.Follow;
        _followInterval = options.FollowInterval;
        _nextLength = Math.Min(FirstLength, _blockLengthMax);
        _free = new Stack<ReadBlock>(_blockCountMax);
        _filled = new Queue<ReadBlock>(_blockCountMax);
        try
        {
            Advise();
        }
        catch
        {
            file.Dispose();
            throw;
        }
    }

    /// <summary>The path of the file, for messages.</summary>
    public string Path => _file.Path;

    /// <summary>The file's length now.</summary>
    public long Length
    {
        get
        {
            lock (_gate)
            {
                ThrowIfDisposed();
                return _file.Length;
            }
        }
    }

    /// <summary>Which file the next block is from; for the consumer.</summary>
    /// <exception cref="PlatformNotSupportedException">That is not known here.</exception>
    public FileMark Mark => Known(MarkOrNull);

    /// <summary>The same; null when that is not known.</summary>
    public FileMark? MarkOrNull
    {
        get
        {
            lock (_gate)
            {
                ThrowIfDisposed();
                return _file.Mark;
            }
        }
    }

    /// <summary>Whether Dispose was called.</summary>
    public bool IsDisposed => Volatile.Read(ref _isDisposed);

    /// <summary>The mark, or why there is none.</summary>
    public static FileMark Known(FileMark? mark) => mark ?? throw new PlatformNotSupportedException(
        "Files can be told apart on Linux only: keep Position, and open the file that it belongs to.");

    /// <summary>Throws unless the pump is open.</summary>
    public void ThrowIfDisposed() => ObjectDisposedException.ThrowIf(Volatile.Read(ref _isDisposed), _owner);

    /// <summary>Takes the next block, waiting for it; null at the end. It goes back by <see cref="Release"/>.</summary>
    public ReadBlock? Take(CancellationToken cancellationToken)
    {
        using CancellationTokenRegistration registration = Register(cancellationToken);
        lock (_gate)
        {
            BeginCall();
            try
            {
                ReadBlock? block;
                while (!TryTake(out block))
                {
                    cancellationToken.ThrowIfCancellationRequested();
                    Want();

                    if (CanFill && _isCached)
                    {
                        FillCached();
                    }
                    else if (CanFill && !cancellationToken.CanBeCanceled)
                    {
                        // Who may be cancelled must not be in a read of the disk itself.
                        FillOne();
                    }
                    else
                    {
                        StartThread();
                        Monitor.Wait(_gate);
                    }
                }

                return block;
            }
            finally
            {
                EndCall();
            }
        }
    }

    /// <summary>The same without blocking a thread: every read that may wait is the pump's.</summary>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    public async ValueTask<ReadBlock?> TakeAsync(CancellationToken cancellationToken)
    {
        lock (_gate)
            BeginCall();
        CancellationTokenRegistration registration = default;
        try
        {
            registration = Register(cancellationToken);
            while (true)
            {
                lock (_gate)
                {
                    if (TryTake(out ReadBlock? block))
                        return block;
                    cancellationToken.ThrowIfCancellationRequested();
                    Want();
                    if (CanFill && _isCached)
                    {
                        FillCached();
                        continue;
                    }

                    StartThread();
                    _wait.Reset();
                    _isWaitArmed = true;
                }

                await new ValueTask(this, _wait.Version).ConfigureAwait(false);
            }
        }
        finally
        {
            // Not under the lock: it waits for a callback that is running, which wants the lock.
            registration.Dispose();
            lock (_gate)
                EndCall();
        }
    }

    /// <summary>
    /// Reads into the caller's own memory what is long or the rest of the file, as long as the system has the bytes in memory, or
    /// the caller may wait for the disk: a block in between would only be a second copy, and the system itself reads ahead of who
    /// reads one long piece after the other. 0 when not, which says nothing about the file.
    /// </summary>
    public int ReadDirectly(Span<byte> destination, bool mayWait)
    {
        lock (_gate)
        {
            BeginCall();
            try
            {
                bool isWorthIt = destination.Length >= DirectMin || destination.Length > _lengthSeen - _nextPosition;
                if (!isWorthIt || !CanFill || _filled.Count > 0)
                    return 0;
                int count = _isCached ? ReadCached(destination) : 0;
                return count == 0 && mayWait && !_isAhead && !_bypassesCache ? ReadFromDisk(destination) : count;
            }
            finally
            {
                EndCall();
            }
        }
    }

    /// <summary>Gives a block back to be read into.</summary>
    public void Release(ReadBlock block)
    {
        lock (_gate)
        {
            _free.Push(block);
            if (CanFill && _isAhead)
                StartThread();
            Monitor.PulseAll(_gate);
        }
    }

    /// <summary>
    /// Goes to a position: gives the block that holds it, when it is among those that were read ahead; else null, and the next
    /// block begins there. An error that an earlier read met is forgotten with what was read.
    /// </summary>
    public ReadBlock? MoveTo(long position)
    {
        lock (_gate)
        {
            BeginCall();
            EndCall();
            while (_filled.TryDequeue(out ReadBlock? block))
            {
                if (position >= block.Position && position < block.End && IsWhole(block))
                    return block;
                _free.Push(block);
            }

            if (_error is FileTruncatedException)
                _lengthSeen = 0;
            Restart(position);
            WakeAll();
            return null;
        }
    }

    /// <summary>
    /// Goes to a position that a reader has been at: a file that is shorter now was truncated.
    /// </summary>
    public void Resume(long position)
    {
        _ = MoveTo(position);
        _lengthSeen = Math.Max(_lengthSeen, position);
    }

    /// <summary>From now on the end of the file is the end; a consumer that waits there gets it.</summary>
    public void StopFollowing()
    {
        lock (_gate)
        {
            _isFollowing = false;

            // What was looked at before this call is no answer: a writer may have appended just before it.
            _ask++;
            WakeAll();
        }
    }

    /// <summary>Ends waiting calls, waits for the read under way, and closes the file.</summary>
    public void Dispose()
    {
        Thread? thread;
        lock (_gate)
        {
            if (_isDisposed)
                return;
            Volatile.Write(ref _isDisposed, true);
            WakeAll();
            while (_isFilling)
                Monitor.Wait(_gate);
            thread = _thread;
        }

        thread?.Join();
        _mapping?.Dispose();
        _successor?.Dispose();
        _file.Dispose();
    }

    void IValueTaskSource.GetResult(short token) => _wait.GetResult(token);

    ValueTaskSourceStatus IValueTaskSource.GetStatus(short token) => _wait.GetStatus(token);

    void IValueTaskSource.OnCompleted(
        Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags) =>
        _wait.OnCompleted(continuation, state, token, flags);

    private CancellationTokenRegistration Register(CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        return cancellationToken.UnsafeRegister(static state => ((ReadPump)state!).WakeForCancellation(), this);
    }

    private void WakeForCancellation()
    {
        lock (_gate)
            WakeAll();
    }

    private void BeginCall()
    {
        ThrowIfDisposed();
        if (_isInCall)
        {
            throw new InvalidOperationException(
                $"A read of this file is pending already; it is read by one caller at a time: path={Path}.");
        }

        _isInCall = true;
        _ask++;
    }

    private void EndCall()
    {
        _isInCall = false;
        _isWanted = false;
    }

    /// <summary>True with a block, or with null at the end.</summary>
    private bool TryTake(out ReadBlock? block)
    {
        ThrowIfDisposed();
        if (_filled.TryPeek(out block))
        {
            if (IsWhole(block))
                return _filled.TryDequeue(out block);
            Restart(block.Position);
            return false;
        }

        if (_error is not null)
            ExceptionDispatchInfo.Throw(_error);
        if (_next is not null)
        {
            BeginFile(_next);
            block = ReadBlock.NextFile;
            return true;
        }

        return _isAtEnd && _answer == _ask && !_isFollowing;
    }

    /// <summary>All of the file was given, and the consumer wants more: what comes is the next file's.</summary>
    private void BeginFile(ReadableFile next)
    {
        ReadableFile before = _file;
        _file = next;
        if (next == _successor)
        {
            _successor = null;
            before.Dispose();
        }

        _askedTo = 0;
        _beforeCount = 0;
        _nextPoll = s_firstPoll;
        Restart(0);
        Advise();
    }

    private void Advise()
    {
        // With room at its end a file may become shorter and lose nothing.
        _lengthSeen = _isText && HasRoomAtEnd(_file) ? 0 : _file.Length;
        if (_bypassesCache)
            _file.PrepareUncachedReads();
        else
            _file.AdviseSequential();
    }

    /// <summary>Says that a consumer waits; an end that was met before it came has to be looked at again.</summary>
    private void Want()
    {
        _isWanted = true;
        if (_isAtEnd && _answer != _ask)
            _isAtEnd = false;
        Monitor.PulseAll(_gate);
    }

    /// <summary>Everybody who waits looks again; called under the lock.</summary>
    private void WakeAll()
    {
        Monitor.PulseAll(_gate);
        if (!_isWaitArmed)
            return;
        _isWaitArmed = false;
        _wait.SetResult(true);
    }
}
