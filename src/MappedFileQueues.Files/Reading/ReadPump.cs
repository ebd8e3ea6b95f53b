using System.Runtime.CompilerServices;
using MappedFileQueues.Files.Names;
using MappedFileQueues.Files.Reading.Blocks;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Files.Reading;

/// <summary>
/// Reads a file block by block, ahead of one consumer: the consumer's calls. What reads is the <see cref="BlockFiller"/>. A block
/// is in nobody's reach but of the one that took it off the queue.
/// </summary>
internal sealed class ReadPump : IDisposable
{
    private readonly BlockSignal _signal = new();
    private readonly object _gate;
    private readonly BlockSource _source;
    private readonly BlockFiller _filler;
    private readonly Type _owner;
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
        _gate = _signal.Gate;
        _owner = owner;
        _source = new BlockSource(source, options, isText, owner);
        try
        {
            _filler = new BlockFiller(_signal, _source, options, headroom, usesCache);
        }
        catch
        {
            _source.Dispose();
            throw;
        }
    }

    /// <summary>The path of the file, for messages.</summary>
    public string Path => _source.Path;

    /// <summary>The file's length now.</summary>
    public long Length
    {
        get
        {
            lock (_gate)
            {
                ThrowIfDisposed();
                return _source.Length;
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
                return _source.Mark;
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

                    // A caller that may be cancelled must not be in a read of the disk itself.
                    if (!_filler.TryFill(mayWait: !cancellationToken.CanBeCanceled))
                        Monitor.Wait(_gate);
                }

                return block;
            }
            finally
            {
                EndCall();
            }
        }
    }

    /// <summary>The same without blocking a thread: every read that may wait is the background thread's.</summary>
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
                ValueTask change;
                lock (_gate)
                {
                    if (TryTake(out ReadBlock? block))
                        return block;
                    cancellationToken.ThrowIfCancellationRequested();
                    if (_filler.TryFill(mayWait: false))
                        continue;
                    change = _signal.NextChange();
                }

                await change.ConfigureAwait(false);
            }
        }
        finally
        {
            // Not under the lock: it waits for a callback that is running, which wants the lock.
            registration.Dispose();
            using (new UninterruptedLock(_gate))
                EndCall();
        }
    }

    /// <summary>Reads into the caller's own memory where that pays; 0 when not, which says nothing about the file.</summary>
    public int ReadDirectly(Span<byte> destination, bool mayWait)
    {
        lock (_gate)
        {
            BeginCall();
            try
            {
                return _filler.ReadDirectly(destination, mayWait);
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
        // The window has moved on to the next block already.
        using (new UninterruptedLock(_gate))
            _filler.Release(block);
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
            return _filler.MoveTo(position);
        }
    }

    /// <summary>
    /// Goes to a position that a reader has been at: a file that is shorter now was truncated.
    /// </summary>
    public void Resume(FilePosition position)
    {
        lock (_gate)
        {
            _source.Resume(position);
            _ = MoveTo(position.Offset);
            _filler.HasBeenAt(position.Offset);
        }
    }

    /// <summary>From now on the end of the file is the end; a consumer that waits there gets it.</summary>
    public void StopFollowing()
    {
        lock (_gate)
            _filler.StopFollowing();
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
            thread = _filler.End();
        }

        if (thread is not null)
            Uninterrupted.Run(thread.Join);
        _source.Dispose();
    }

    private CancellationTokenRegistration Register(CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        return cancellationToken.UnsafeRegister(static pump => ((ReadPump)pump!).WakeForCancellation(), this);
    }

    private void WakeForCancellation()
    {
        lock (_gate)
            _signal.WakeAll();
    }

    private bool TryTake(out ReadBlock? block)
    {
        ThrowIfDisposed();
        return _filler.TryTake(out block);
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
        _filler.BeginCall();
    }

    private void EndCall()
    {
        _isInCall = false;
        _filler.EndCall();
    }
}
