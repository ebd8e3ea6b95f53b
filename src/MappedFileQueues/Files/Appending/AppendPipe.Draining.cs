using System.Diagnostics;

namespace MappedFileQueues.Files.Appending;

/// <summary>The way to the file: the draining role, the background thread, flushes, the end.</summary>
internal sealed partial class AppendPipe
{
    private static readonly TimeSpan s_awake = TimeSpan.FromMicroseconds(100);

    /// <summary>Returns once everything before the place is with the system, or on disk.</summary>
    public void FlushUpTo(long end, bool isDurable)
    {
        while (true)
        {
            lock (_gate)
            {
                if ((isDurable ? _flushed : _written) >= end)
                    return;
                bool isClosing = _isClosed && !_isFinished;
                if (_failure is null && (_isDraining || isClosing || (_isTakenByOne && _sealed is null)))
                {
                    // Whoever is at it, a closing too, may be about to do what this call wants.
                    Monitor.Wait(_gate);
                    continue;
                }

                ThrowIfUnusable();
                _isDraining = true;
            }

            try
            {
                DrainUpTo(end);
                if (isDurable && _written >= end)
                    Sync();
            }
            catch (Exception error)
            {
                Fail(error);
            }
            finally
            {
                EndRole();
            }
        }
    }

    /// <summary>Writes and flushes what is left, ends the file and lets go of everything. The second call does nothing.</summary>
    public void Close()
    {
        lock (_gate)
        {
            if (_isClosed)
                return;
            _isClosed = true;
            Monitor.PulseAll(_gate);
            while (_isDraining || _isTakenByOne)
            {
                // A long write ends by itself, and needs the background thread for it, which goes on until then.
                Monitor.Wait(_gate);
            }

            _isDraining = true;
            Cursor.Close();
        }

        _timer?.Dispose();
        try
        {
            if (_failure is null)
                DrainLast();
        }
        catch (Exception error)
        {
            Fail(error);
        }

        lock (_gate)
            _isFinished = true;
        EndRole();
        _writer.Join();
        if (_failure is not null)
            _files.End(isFailed: true);
        _files.Dispose();
        FreeBuffers();
        if (_failure is { } failure)
            throw failure.ToException();
    }

    private void DrainLast()
    {
        // What a full buffer leaves over is carried to the active one, and written with it.
        _ = Drain(everything: false);
        _active.WaitForCopies();
        WriteOut(_active, _active.End);
        _files.End(isFailed: false);
        if (_options.Durability != AppendDurability.PageCache)
            Sync();
    }

    /// <summary>The background thread: full buffers at once, everything when the timer has ticked.</summary>
    private void RunWriter()
    {
        while (true)
        {
            bool isTicked;
            lock (_gate)
            {
                while (!HasWork() && !HasEnded())
                    Monitor.Wait(_gate);
                if (HasEnded())
                    return;
                (isTicked, _isTicked) = (_isTicked, false);
                _isDraining = true;
            }

            try
            {
                if (isTicked)
                    DrainOnTick();
                else
                    _ = Drain(everything: false);
            }
            catch (Exception error)
            {
                Fail(error);
            }
            finally
            {
                EndRole();
            }

            if (!isTicked)
                StayAwakeWhile(onItsWay: null);
        }
    }

    /// <summary>
    /// The system takes a full buffer in less than 100 us, and 100 us later the next one may be full. A thread that sleeps comes
    /// back after some 50 us, and then puts somebody aside who may be in the middle of a write. So the background thread and a
    /// few writers stay awake for as long, and let others run first. Four threads that append: 9 to 10 ns a line; 10 to 12 when
    /// one writer stays awake, 12 when none does.
    /// </summary>
    private void StayAwakeWhile(AppendBuffer? onItsWay)
    {
        long begun = Stopwatch.GetTimestamp();
        while (_sealed == onItsWay && !_isClosed && Stopwatch.GetElapsedTime(begun) < s_awake)
            Thread.Yield();
    }

    private bool HasWork() => !_isDraining && (_sealed is not null || _isTicked);

    private bool HasEnded() => _failure is not null || (_isClosed && !_isTakenByOne);

    private void Tick()
    {
        lock (_gate)
        {
            bool isBehind = Accepted() > _written || (_options.Durability != AppendDurability.PageCache && _written > _flushed);
            if (_isTicked || (!isBehind && !IsDue()))
                return;
            _isTicked = true;
            Monitor.PulseAll(_gate);
        }
    }

    private bool IsDue() =>
        _options.RollInterval != Timeout.InfiniteTimeSpan
        && _options.TimeProvider.GetUtcNow().UtcTicks - _files.BegunTicks >= _options.RollInterval.Ticks;

    private void DrainOnTick()
    {
        DrainUpTo(AcceptedLength);
        bool isRolled = false;
        lock (_gate)
        {
            if (IsDue() && !_isTakenByOne && !_isClosed && _sealed is null && _active.FilePosition + Cursor.EndOf(_active) > 0)
            {
                Swap(endsFile: true);
                isRolled = true;
            }
        }

        if (isRolled)
            _ = Drain(everything: true);
        if (_options.Durability != AppendDurability.PageCache && _written > _flushed)
            Sync();
    }

    /// <summary>In the role: writes until the place is reached, or until a long write has to go on first.</summary>
    private void DrainUpTo(long end)
    {
        while (_written < end && Drain(everything: true))
        {
        }
    }

    /// <summary>
    /// In the role: writes the buffer that is on its way, whole blocks of it; or, when everything is wanted, all of it, and the
    /// active one when none is on its way. False when there was nothing to do.
    /// </summary>
    private bool Drain(bool everything)
    {
        AppendBuffer? full;
        lock (_gate)
        {
            bool isBehind = Accepted() > _written;
            if (_sealed is null && everything && isBehind && !_isTakenByOne && !_isClosed)
                Swap(endsFile: false);
            full = _sealed;
        }

        if (full is null)
            return false;
        full.WaitForCopies();
        int carried = full.Carried;
        full.First(full.End)[(full.End - carried)..].CopyTo(_active.First(carried));
        WriteOut(full, everything || full.EndsFile ? full.End : full.End - carried);
        if (full.EndsFile)
            _files.Roll();

        lock (_gate)
        {
            _sealed = null;
            _spare = full;
            if (_isSwapWanted && !_isTakenByOne && !_isClosed)
                Swap(_isNextFileWanted);
            Monitor.PulseAll(_gate);
        }

        return true;
    }

    private void WriteOut(AppendBuffer buffer, int length)
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
            lock (_gate)
            {
                // Less than before when a carried block could not be written again: it still stands there.
                _written = Math.Max(_written, buffer.Origin + done);
                _files.Current.End = buffer.FilePosition + _written - buffer.Origin;
            }
        }
    }

    private void Sync()
    {
        long upTo = _written;
        _files.Sync();
        lock (_gate)
            _flushed = upTo;
    }

    /// <summary>Writes the buffer that is on its way, by a thread that has taken the role to get room.</summary>
    private void DrainInRole()
    {
        try
        {
            _ = Drain(everything: false);
        }
        catch (Exception error)
        {
            Fail(error);
        }
        finally
        {
            EndRole();
        }
    }

    private void EndRole()
    {
        lock (_gate)
        {
            _isDraining = false;
            Monitor.PulseAll(_gate);
        }
    }

    /// <summary>The first error stays; nothing can be appended behind bytes that are missing.</summary>
    private void Fail(Exception error)
    {
        lock (_gate)
        {
            if (_failure is not null)
                return;
            Cursor.Close();
            _failure = new AppendFailure(error, _path, Accepted(), _written, _flushed);
            Monitor.PulseAll(_gate);
        }
    }
}
