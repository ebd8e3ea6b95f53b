using MappedFileQueues.Threads;

namespace MappedFileQueues.Files.Appending;

/// <summary>
/// The way from the buffers to the file. Draining is a role that one thread has at a time: the background thread, or any thread
/// that flushes or needs room, which so need not wait to be served. The thread with the role writes, rolls and syncs without the
/// gate, and alone changes what is here. An interrupt of the thread must not end that half-way.
/// <para>Every write to the file begins at a block. The last block, when it is not full, is copied to the head of the next buffer
/// and written again from there.</para>
/// </summary>
internal sealed class AppendDrain : IDisposable
{
    private readonly object _gate;
    private readonly AppendBuffers _buffers;
    private readonly AppendFileSet _files;
    private readonly AppendFileOptions _options;
    private readonly string _path;

    // They change under the gate, and are read without it too.
    private volatile AppendFailure? _failure;
    private long _written;
    private long _flushed;

    /// <summary>Takes over the files; it disposes them.</summary>
    public AppendDrain(string path, AppendBuffers buffers, AppendFileSet files, AppendFileOptions options)
    {
        (_path, _buffers, _files, _options) = (path, buffers, files, options);
        _gate = buffers.Gate;
    }

    /// <summary>The first error; nothing can be appended after bytes that are missing.</summary>
    public AppendFailure? Failure => _failure;

    /// <summary>Bytes that the system has, counted from the opening. From any thread.</summary>
    public long Written => Volatile.Read(ref _written);

    /// <summary>Bytes that survive a power loss. From any thread.</summary>
    public long Flushed => Volatile.Read(ref _flushed);

    /// <summary>Bytes that calls have handed over, counted from the opening. From any thread; takes the gate.</summary>
    public long Accepted
    {
        get
        {
            using (new UninterruptedLock(_gate))
                return _buffers.Accepted;
        }
    }

    /// <summary>Under the gate: whether a thread has the role.</summary>
    public bool IsTaken { get; private set; }

    /// <summary>Under the gate: whether the last byte was written, or failed to be.</summary>
    public bool HasEnded { get; private set; }

    private bool IsDurable => _options.Durability != AppendDurability.PageCache;

    /// <summary>Under the gate: whether the current file is older than a file may become, or may be.</summary>
    public bool IsRollDue() => _files.Schedule.IsDue();

    /// <summary>Whether a closed file has been kept long enough.</summary>
    public bool IsExpiryDue() =>
        _options.RetainedAge is not null && _options.TimeProvider.GetUtcNow().UtcTicks >= _files.ExpiryTicks;

    /// <summary>Under the gate: whether a tick of the timer has something to do.</summary>
    public bool IsBehind() => _buffers.Accepted > _written || (IsDurable && _written > _flushed);

    /// <summary>Under the gate: takes the role, which nobody has. One of the methods below ends it.</summary>
    public void Take() => IsTaken = true;

    /// <summary>
    /// Under the gate: takes the role when a buffer waits to be written and no thread is at it, because the background thread was
    /// woken and does not run yet. On a busy machine waiting for it would take longer than the work.
    /// </summary>
    public bool TryTakeForSealed()
    {
        if (IsTaken || _buffers.Sealed is null || _failure is not null)
            return false;
        return IsTaken = true;
    }

    /// <summary>With the role, which it ends: writes the sealed buffer.</summary>
    public void WriteSealed() => RunInRole(this, static drain => drain.DrainSealed(everything: false));

    /// <summary>
    /// With the role, which it ends: writes until the bytes before <paramref name="end"/> are with the system, or until a long
    /// write has to continue first; and syncs.
    /// </summary>
    public void FlushUpTo(long end, bool isDurable) => RunInRole((Drain: this, end, isDurable), static goal =>
    {
        AppendDrain drain = goal.Drain;
        drain._files.ThrowIfRemoved();
        drain.WriteUpTo(goal.end);
        if (goal.isDurable && drain._written >= goal.end)
            drain.Sync();
    });

    /// <summary>
    /// With the role, which it ends: writes what there is, syncs it where the level says so, and rolls a file that is due.
    /// </summary>
    public void FlushOnTick() => RunInRole(this, static drain =>
    {
        drain._files.ThrowIfRemoved();
        drain.WriteUpTo(drain.Accepted);
        if (drain.TrySealLastOfFile())
            _ = drain.DrainSealed(everything: true);
        if (drain.IsExpiryDue())
            drain._files.DeleteExpired();
        if (drain.IsDurable && drain._written > drain._flushed)
            drain.Sync();
    });

    /// <summary>With the role, which it ends: writes the rest and ends the file. No write continues any more.</summary>
    public void End()
    {
        RunInRole(this, static drain =>
        {
            try
            {
                if (drain._failure is null)
                    drain.WriteRest();
            }
            finally
            {
                using (new UninterruptedLock(drain._gate))
                    drain.HasEnded = true;
            }
        });
    }

    /// <summary>Closes the files, after <see cref="End"/>.</summary>
    public void Dispose()
    {
        if (_failure is not null)
            _files.End(isFailed: true);
        _files.Dispose();
    }

    private void RunInRole<T>(T state, Action<T> work)
    {
        try
        {
            work(state);
        }
        catch (Exception error)
        {
            Fail(error);
        }
        finally
        {
            using (new UninterruptedLock(_gate))
            {
                IsTaken = false;
                Monitor.PulseAll(_gate);
            }
        }
    }

    private void WriteUpTo(long end)
    {
        while (_written < end && DrainSealed(everything: true))
        {
        }
    }

    private void WriteRest()
    {
        // What a full buffer leaves over is carried to the active one, and written with it.
        _ = DrainSealed(everything: false);
        _buffers.Active.WaitForCopies();
        Write(_buffers.Active, _buffers.Active.End);
        _files.End(isFailed: false);
        if (IsDurable)
            Sync();
    }

    private bool TrySealLastOfFile()
    {
        using (new UninterruptedLock(_gate))
        {
            if (!IsRollDue() || _files.Schedule.Lowers())
                return false;
            if (!_buffers.HasBytesInFile && !_files.Schedule.IsPutOff)
            {
                // Otherwise the first write of the day would be rolled at the next tick.
                _files.Schedule.BeginDay();
                return false;
            }

            return _buffers.TrySwap(endsFile: true);
        }
    }

    /// <summary>
    /// Writes whole blocks of the sealed buffer; or, when everything is wanted, all of it, and the active one when none is
    /// sealed. False when there was nothing to do.
    /// </summary>
    private bool DrainSealed(bool everything)
    {
        AppendBuffer? full;
        using (new UninterruptedLock(_gate))
        {
            if (everything && _buffers.Accepted > _written)
                _ = _buffers.TrySwap(endsFile: false);
            full = _buffers.Sealed;
        }

        if (full is null)
            return false;
        full.WaitForCopies();
        int carried = full.Carried;
        full.First(full.End)[(full.End - carried)..].CopyTo(_buffers.Active.First(carried));
        Write(full, everything || full.EndsFile ? full.End : full.End - carried);
        if (full.EndsFile)
            _files.Roll();
        using (new UninterruptedLock(_gate))
            _buffers.EndSealed();
        return true;
    }

    private void Write(AppendBuffer buffer, int length)
    {
        int done = 0;
        try
        {
            if (length > 0)
                _files.Current.Write(buffer.First(length), buffer.FilePosition);
            done = length;
        }
        catch
        {
            done = _files.Current.WriteWhatFits(buffer.First(length), buffer.FilePosition);
            throw;
        }
        finally
        {
            using (new UninterruptedLock(_gate))
            {
                // Less than before when a carried block could not be written again: it is still there.
                _written = Math.Max(_written, buffer.Origin + done);
                _files.Current.HasWritten(buffer.FilePosition + _written - buffer.Origin);
            }
        }
    }

    private void Sync()
    {
        long upTo = _written;
        _files.Sync();
        using (new UninterruptedLock(_gate))
            _flushed = upTo;
    }

    private void Fail(Exception error)
    {
        using (new UninterruptedLock(_gate))
        {
            if (_failure is not null)
                return;
            _buffers.Cursor.Close();
            _failure = new AppendFailure(error, _path, _buffers.Accepted, _written, _flushed);
            Monitor.PulseAll(_gate);
        }
    }
}
