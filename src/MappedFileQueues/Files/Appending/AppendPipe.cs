using System.Runtime.CompilerServices;

namespace MappedFileQueues.Files.Appending;

/// <summary>
/// Two buffers, of which one takes what is written while the other is on its way to the file.
/// <para>A writer claims room in the active buffer and copies (<see cref="AppendCursor"/>). Where no room is left it swaps the
/// buffers under the gate, or waits there while the other one is still on its way. Draining is a role that one thread has at a
/// time: the background thread, which takes full buffers and works when the timer ticks, or whoever flushes, who thereby need not
/// wait to be served. Every write to the file begins at a block; the last block, when it is not full, is copied to the head of
/// the next buffer and written again from there.</para>
/// <para>A write that fits no buffer takes the active one for itself (it stays sealed), fills and swaps as often as it needs, and
/// opens it again: the others wait at the gate, so that its bytes stay together.</para>
/// </summary>
internal sealed unsafe partial class AppendPipe
{
    private readonly object _gate = new();
    private readonly string _path;
    private readonly AppendFileOptions _options;
    private readonly AppendFileSet _files;
    private readonly AppendBuffer?[] _buffers;
    private readonly Thread _writer;
    private readonly ITimer? _timer;
    private readonly long _fileLengthMax;
    private readonly int _lengthMax;

    // The fields below change under the gate. The volatile ones are read without it too; and _active is, by whoever drains, while
    // a sealed buffer keeps anybody from swapping.
    private volatile AppendFailure? _failure;
    private volatile bool _isClosed;
    private volatile AppendBuffer? _sealed;
    private AppendBuffer _active;
    private AppendBuffer _spare;
    private bool _isDraining;
    private bool _isTicked;
    private bool _isFinished;
    private bool _isTakenByOne;
    private bool _isSwapWanted;
    private bool _isNextFileWanted;
    private int _awakeWriters;
    private long _takenEnd;
    private long _written;
    private long _flushed;

    public AppendPipe(string path, AppendFileOptions options)
    {
        _path = path;
        _options = options;
        _files = AppendFileSet.Open(path, options);
        _fileLengthMax = options.RollsByLength ? options.RollLength : long.MaxValue;
        _lengthMax = (int)Math.Min(options.BufferLength / 2, _fileLengthMax);
        _buffers = new AppendBuffer?[2];
        try
        {
            _active = _buffers[0] = new AppendBuffer(options.BufferLength);
            _spare = _buffers[1] = new AppendBuffer(options.BufferLength);
            BeginAtEnd();
            _timer = MakeTimer();
            _writer = new Thread(RunWriter) { IsBackground = true, Name = "MappedFileQueues append" };
            _writer.UnsafeStart();
        }
        catch
        {
            _timer?.Dispose();
            _files.Dispose();
            FreeBuffers();
            throw;
        }
    }

    /// <summary>Where short writes go at once; those that it refuses go to <see cref="Write"/>.</summary>
    public AppendCursor Cursor { get; } = new();

    /// <summary>Bytes that the system has, counted from the opening.</summary>
    public long WrittenLength => Volatile.Read(ref _written);

    /// <summary>Bytes that survive a power cut.</summary>
    public long FlushedLength => Volatile.Read(ref _flushed);

    /// <summary>Bytes that calls have handed over.</summary>
    public long AcceptedLength
    {
        get
        {
            lock (_gate)
                return Accepted();
        }
    }

    /// <summary>Appends the bytes in one piece; the place behind them.</summary>
    public long Write(ReadOnlySpan<byte> bytes)
    {
        if (Cursor.TryAppend(bytes, out long end))
            return end;
        if (bytes.Length > _lengthMax)
            return WriteLong(bytes);
        AppendBuffer buffer = WaitForRoom(bytes.Length, out byte* start);
        return buffer.Fill(start, bytes);
    }

    /// <summary>Throws what every call throws after the first error, or after the end.</summary>
    public void ThrowIfUnusable()
    {
        if (_failure is { } failure)
            throw failure.ToException();
        ObjectDisposedException.ThrowIf(_isClosed, typeof(AppendFileStream));
    }

    private ITimer? MakeTimer()
    {
        TimeSpan period = _options.FlushInterval;
        if (period == Timeout.InfiniteTimeSpan && _options.RollInterval != Timeout.InfiniteTimeSpan)
            period = TimeSpan.FromTicks(Math.Min(_options.RollInterval.Ticks, AppendFileOptions.TimerIntervalMax.Ticks));
        if (period == Timeout.InfiniteTimeSpan)
            return null;

        // Whatever flows with the caller (a request, a transaction) is not this timer's for the life of the stream.
        using (ExecutionContext.SuppressFlow())
            return _options.TimeProvider.CreateTimer(static pipe => ((AppendPipe)pipe!).Tick(), this, period, period);
    }

    private void BeginAtEnd()
    {
        long length = _files.OpenedLength;
        int carried = (int)(length % AppendFileOptions.BlockLength);
        _active.Begin(-carried, length - carried, carried, _fileLengthMax);
        if (carried > 0)
            _files.Current.Read(_active.First(carried), length - carried);
        Cursor.Open(_active, carried);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private AppendBuffer WaitForRoom(int length, out byte* start)
    {
        while (true)
        {
            bool drains;
            AppendBuffer? onItsWay;
            lock (_gate)
            {
                ThrowIfUnusable();
                if (!_isTakenByOne)
                {
                    if (Cursor.TryClaim(length, out start) is { } buffer)
                        return buffer;
                    bool endsFile = _active.FilePosition + Cursor.EndOf(_active) + length > _fileLengthMax;
                    if (_sealed is null)
                    {
                        Swap(endsFile);
                        continue;
                    }

                    // Whoever drains swaps as soon as it is done: woken first, this thread would leave it without work meanwhile.
                    _isSwapWanted = true;
                    _isNextFileWanted |= endsFile;
                }

                drains = TryTakeRoleForSealed();
                if (!drains && !TryStayAwake())
                {
                    Monitor.Wait(_gate);
                    continue;
                }

                onItsWay = _sealed;
            }

            if (drains)
                DrainInRole();
            else
                StayAwakeWhile(onItsWay);
        }
    }

    /// <summary>
    /// Under the gate: a few of those for whom both buffers are full stay awake, once for each buffer. More of them, or any on a
    /// slow disk, would only keep processors busy.
    /// </summary>
    private bool TryStayAwake()
    {
        const int AwakeWritersMax = 4;
        if (_isTakenByOne || _sealed is null || _awakeWriters == AwakeWritersMax)
            return false;
        _awakeWriters++;
        return true;
    }

    /// <summary>
    /// Under the gate: a buffer waits to be written, and nobody is at it, because the background thread was woken and does not
    /// run yet. On a busy machine waiting for that would take longer than the work.
    /// </summary>
    private bool TryTakeRoleForSealed()
    {
        if (_isDraining || _sealed is null || _failure is not null)
            return false;
        return _isDraining = true;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private long WriteLong(ReadOnlySpan<byte> bytes)
    {
        AppendBuffer active = TakeBuffer(bytes.Length);
        try
        {
            bool isTooLong = active.FilePosition + active.End + bytes.Length > _fileLengthMax;
            if (isTooLong && active.FilePosition + active.End > 0)
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
            GiveBufferBack();
        }
    }

    private AppendBuffer TakeBuffer(int length)
    {
        lock (_gate)
        {
            ThrowIfUnusable();
            while (_isTakenByOne)
            {
                Monitor.Wait(_gate);
                ThrowIfUnusable();
            }

            Cursor.Close();
            _takenEnd = _active.Origin + _active.End + length;
            _isTakenByOne = true;
            return _active;
        }
    }

    private AppendBuffer SwapTaken(bool endsFile)
    {
        while (true)
        {
            lock (_gate)
            {
                // Not ThrowIfUnusable: a closing waits for this write.
                if (_failure is { } failure)
                    throw failure.ToException();
                if (_sealed is null)
                {
                    Swap(endsFile);
                    return _active;
                }

                if (!TryTakeRoleForSealed())
                {
                    Monitor.Wait(_gate);
                    continue;
                }
            }

            DrainInRole();
        }
    }

    private void GiveBufferBack()
    {
        lock (_gate)
        {
            _isTakenByOne = false;
            Monitor.PulseAll(_gate);
            if (_failure is null && !_isClosed)
                Cursor.Open(_active, _active.End);
        }
    }

    /// <summary>Under the gate, while no buffer is on its way: sends the active one off and begins the other.</summary>
    private void Swap(bool endsFile)
    {
        (_isSwapWanted, _isNextFileWanted) = (false, false);
        AppendBuffer full = _active;
        AppendBuffer next = _spare;
        Cursor.Close();
        full.EndsFile = endsFile;
        int carried = full.Carried;
        long filePosition = endsFile ? 0 : full.FilePosition + full.End - carried;
        next.Begin(full.Origin + full.End - carried, filePosition, carried, _fileLengthMax);
        _sealed = full;
        _awakeWriters = 0;
        _active = next;
        if (!_isTakenByOne && !_isClosed)
            Cursor.Open(next, carried);
        Monitor.PulseAll(_gate);
    }

    /// <summary>Under the gate: the place behind everything that calls have handed over.</summary>
    private long Accepted() => _isTakenByOne ? _takenEnd : _active.Origin + Cursor.EndOf(_active);

    private void FreeBuffers()
    {
        foreach (AppendBuffer? buffer in _buffers)
        {
            buffer?.WaitForCopies();
            buffer?.Free();
        }
    }
}
