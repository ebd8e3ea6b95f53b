using System.Runtime.CompilerServices;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Files.Appending;

/// <summary>
/// What a stream does: it copies into the <see cref="AppendBuffers"/>, from which an <see cref="AppendDrain"/> writes to the
/// file, called by the <see cref="AppendWriter"/> or by a thread of the caller.
/// <para>A writer claims room in the active buffer and copies (<see cref="AppendCursor"/>). Where no room is left it swaps the
/// buffers under the gate. While the other buffer is still on its way, it takes the draining role, or waits.</para>
/// </summary>
internal sealed unsafe class AppendPipe
{
    private readonly AppendBuffers _buffers;
    private readonly AppendDrain _drain;
    private readonly AppendWriter _writer;
    private readonly object _gate;
    private readonly int _lengthMax;

    public AppendPipe(string path, AppendFileOptions options)
    {
        AppendFileSet files = AppendFileSet.Open(path, options);
        long fileLengthMax = options.RollsByLength ? options.RollLength : long.MaxValue;
        _lengthMax = (int)Math.Min(options.BufferLength / 2, fileLengthMax);
        AppendBuffers? buffers = null;
        try
        {
            _buffers = buffers = new AppendBuffers(options.BufferLength, fileLengthMax);
            _gate = buffers.Gate;
            buffers.BeginAtEnd(files.Current, files.OpenedLength);
            _drain = new AppendDrain(path, buffers, files, options);
            _writer = new AppendWriter(buffers, _drain, options);
        }
        catch
        {
            files.Dispose();
            buffers?.Dispose();
            throw;
        }
    }

    /// <summary>Where short writes go at once; those that it refuses go to <see cref="Write"/>.</summary>
    public AppendCursor Cursor => _buffers.Cursor;

    /// <summary>Bytes that the system has, counted from the opening.</summary>
    public long WrittenLength => _drain.Written;

    /// <summary>Bytes that survive a power loss.</summary>
    public long FlushedLength => _drain.Flushed;

    /// <summary>Bytes that calls have handed over.</summary>
    public long AcceptedLength => _drain.Accepted;

    /// <summary>Appends the bytes in one piece, and returns the place after them.</summary>
    public long Write(ReadOnlySpan<byte> bytes)
    {
        if (Cursor.TryAppend(bytes, out long end))
            return end;
        if (bytes.Length > _lengthMax)
            return WriteLong(bytes);
        AppendBuffer buffer = WaitForCapacity(bytes.Length, out byte* start);
        return buffer.Fill(start, bytes);
    }

    /// <summary>Returns once everything before the place is with the system, or on disk.</summary>
    public void FlushUpTo(long end, bool isDurable)
    {
        while (true)
        {
            lock (_gate)
            {
                if ((isDurable ? _drain.Flushed : _drain.Written) >= end)
                    return;
                bool isClosing = _buffers.IsClosed && !_drain.HasEnded;
                bool waitsForLong = _buffers.IsTaken && _buffers.Sealed is null;
                if (_drain.Failure is null && (_drain.IsTaken || isClosing || waitsForLong))
                {
                    // The thread with the role, a closing one too, may be about to do what this call wants.
                    Monitor.Wait(_gate);
                    continue;
                }

                ThrowIfUnusable();
                _drain.Take();
            }

            _drain.FlushUpTo(end, isDurable);
        }
    }

    /// <summary>Writes and flushes what is left, ends the file and closes it. The second call does nothing.</summary>
    public void Close()
    {
        var gate = new UninterruptedLock(_gate);
        try
        {
            if (_buffers.IsClosed)
                return;
            _buffers.Close();

            // A long write ends by itself. It needs the background thread for that, which continues until then.
            while (_drain.IsTaken || _buffers.IsTaken)
                gate.Wait();
            _drain.Take();
            Cursor.Close();
        }
        finally
        {
            gate.Dispose();
        }

        _writer.StopTimer();
        _drain.End();
        _writer.Dispose();
        _drain.Dispose();
        _buffers.Dispose();
        if (_drain.Failure is { } failure)
            throw failure.ToException();
    }

    /// <summary>Throws what every call throws after the first error, or after the end.</summary>
    public void ThrowIfUnusable()
    {
        ThrowIfFailed();
        ObjectDisposedException.ThrowIf(_buffers.IsClosed, typeof(AppendFileStream));
    }

    private void ThrowIfFailed()
    {
        if (_drain.Failure is { } failure)
            throw failure.ToException();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private AppendBuffer WaitForCapacity(int length, out byte* start)
    {
        while (true)
        {
            bool drains;
            AppendBuffer? onItsWay;
            lock (_gate)
            {
                ThrowIfUnusable();
                if (_buffers.TryClaim(length, out start) is { } buffer)
                    return buffer;
                drains = _drain.TryTakeForSealed();
                if (!drains && !_buffers.TryStayAwake())
                {
                    Monitor.Wait(_gate);
                    continue;
                }

                onItsWay = _buffers.Sealed;
            }

            if (drains)
                _drain.WriteSealed();
            else
                _buffers.StayAwakeWhile(onItsWay);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private long WriteLong(ReadOnlySpan<byte> bytes)
    {
        AppendBuffer active = TakeBuffer(bytes.Length);
        try
        {
            if (_buffers.EndsFile(bytes.Length) && _buffers.HasBytesInFile)
                active = SwapTaken(endsFile: true);
            while (true)
            {
                bytes = bytes[active.FillSealed(bytes)..];
                if (bytes.Length == 0)
                    return active.Origin + active.End;
                active = SwapTaken(endsFile: false);
            }
        }
        finally
        {
            using (new UninterruptedLock(_gate))
                _buffers.Return(opens: _drain.Failure is null);
        }
    }

    private AppendBuffer TakeBuffer(int length)
    {
        lock (_gate)
        {
            ThrowIfUnusable();
            while (_buffers.IsTaken)
            {
                Monitor.Wait(_gate);
                ThrowIfUnusable();
            }

            return _buffers.Take(length);
        }
    }

    private AppendBuffer SwapTaken(bool endsFile)
    {
        while (true)
        {
            var gate = new UninterruptedLock(_gate);
            try
            {
                // Not ThrowIfUnusable: a thread that closes the stream waits for this write.
                ThrowIfFailed();
                if (_buffers.Sealed is null)
                {
                    _buffers.Swap(endsFile);
                    return _buffers.Active;
                }

                if (!_drain.TryTakeForSealed())
                {
                    gate.Wait();
                    continue;
                }
            }
            finally
            {
                gate.Dispose();
            }

            _drain.WriteSealed();
        }
    }
}
