using System.Diagnostics;

namespace MappedFileQueues.Files.Appending;

/// <summary>
/// The two buffers of a stream. The active one takes what is written. The sealed one is on its way to the file; when it is
/// written, it becomes the spare one, which the next swap makes the active one.
/// <para>A write that fits no buffer takes the active one for itself (it stays closed to others), fills and swaps as often as it
/// needs, and opens it again: so its bytes stay together.</para>
/// <para>Every member is called with the <see cref="Gate"/> held, unless it says otherwise.</para>
/// </summary>
internal sealed unsafe class AppendBuffers : IDisposable
{
    private const int AwakeWritersMax = 4;

    private static readonly TimeSpan s_awake = TimeSpan.FromMicroseconds(100);

    private readonly AppendBuffer?[] _buffers = new AppendBuffer?[2];
    private readonly long _fileLengthMax;

    // They change under the gate. The volatile ones are read without it too. So is _active, by the thread that drains: while a
    // buffer is sealed, no other thread swaps.
    private volatile AppendBuffer? _sealed;
    private volatile bool _isClosed;
    private AppendBuffer _active;
    private AppendBuffer _spare;
    private SwapRequest _request;
    private long? _takenEnd;
    private int _awakeWriters;

    /// <param name="length">The most that one write to the file has, in bytes; see <see cref="AppendBuffer"/>.</param>
    /// <param name="fileLengthMax">The length at which a file ends and the next one begins.</param>
    /// <exception cref="MappedFileQueueException">The system gives no memory.</exception>
    public AppendBuffers(int length, long fileLengthMax)
    {
        _fileLengthMax = fileLengthMax;
        try
        {
            _active = _buffers[0] = new AppendBuffer(length);
            _spare = _buffers[1] = new AppendBuffer(length);
        }
        catch
        {
            Dispose();
            throw;
        }
    }

    private enum SwapRequest
    {
        None,
        SameFile,
        NextFile,
    }

    /// <summary>The lock of the stream's state. Threads wait here for a buffer, for the draining role, and for flushes.</summary>
    public object Gate { get; } = new();

    /// <summary>Where short writes go at once. From any thread, without the gate.</summary>
    public AppendCursor Cursor { get; } = new();

    /// <summary>The buffer that takes what is written.</summary>
    public AppendBuffer Active => _active;

    /// <summary>The buffer that is on its way to the file, or null. May be read without the gate.</summary>
    public AppendBuffer? Sealed => _sealed;

    /// <summary>Whether one long write has the active buffer for itself.</summary>
    public bool IsTaken => _takenEnd is not null;

    /// <summary>Whether the stream is being closed: no write begins any more. May be read without the gate.</summary>
    public bool IsClosed => _isClosed;

    /// <summary>The bytes that calls have handed over, counted from the opening.</summary>
    public long Accepted => _takenEnd ?? _active.Origin + Cursor.EndOf(_active);

    /// <summary>Whether the current file holds, or is about to hold, any bytes. As <see cref="EndsFile"/>.</summary>
    public bool HasBytesInFile => _active.FilePosition + Cursor.EndOf(_active) > 0;

    /// <summary>
    /// Whether so many more bytes would make the current file too long. Also for a long write that has the active buffer, without
    /// the gate.
    /// </summary>
    public bool EndsFile(int length) => _active.FilePosition + Cursor.EndOf(_active) + length > _fileLengthMax;

    private bool IsOpenToAll => !IsTaken && !_isClosed;

    /// <summary>Begins at the end of a file that may hold a part of a block. Once, before any other call.</summary>
    public void BeginAtEnd(AppendFile file, long length)
    {
        int carried = (int)(length % AppendFileOptions.BlockLength);
        _active.Begin(-carried, length - carried, carried, _fileLengthMax);
        if (carried > 0)
            file.Read(_active.First(carried), length - carried);
        Cursor.Open(_active, carried);
    }

    /// <summary>
    /// Claims room in the active buffer, after a swap if that gives room. Null when the caller has to wait: a long write has the
    /// buffer, or both buffers are full.
    /// </summary>
    public AppendBuffer? TryClaim(int length, out byte* start)
    {
        start = null;
        while (!IsTaken)
        {
            if (Cursor.TryClaim(length, out start) is { } buffer)
                return buffer;
            bool endsFile = EndsFile(length);
            if (_sealed is not null)
            {
                // The thread that drains swaps as soon as it is done. If it woke this thread for it instead, it would have
                // nothing to do until then.
                _request = endsFile || _request == SwapRequest.NextFile ? SwapRequest.NextFile : SwapRequest.SameFile;
                return null;
            }

            Swap(endsFile);
        }

        return null;
    }

    /// <summary>Gives the active buffer to one long write. Not while it is taken.</summary>
    public AppendBuffer Take(int length)
    {
        Debug.Assert(!IsTaken);
        Cursor.Close();
        _takenEnd = _active.Origin + _active.End + length;
        return _active;
    }

    /// <summary>Ends a long write.</summary>
    public void Return(bool opens)
    {
        _takenEnd = null;
        Monitor.PulseAll(Gate);
        if (opens && !_isClosed)
            Cursor.Open(_active, _active.End);
    }

    /// <summary>
    /// Seals what was written so far, if nothing is sealed and the active buffer is open to every writer; else false.
    /// </summary>
    public bool TrySwap(bool endsFile)
    {
        if (_sealed is not null || !IsOpenToAll)
            return false;
        Swap(endsFile);
        return true;
    }

    /// <summary>Seals the active buffer and begins the spare one. Not while a buffer is sealed.</summary>
    public void Swap(bool endsFile)
    {
        Debug.Assert(_sealed is null);
        _request = SwapRequest.None;
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
        if (IsOpenToAll)
            Cursor.Open(next, carried);
        Monitor.PulseAll(Gate);
    }

    /// <summary>The sealed buffer is written: makes it the spare one, and swaps if a writer has asked for that.</summary>
    public void EndSealed()
    {
        _spare = _sealed!;
        _sealed = null;
        if (_request != SwapRequest.None && IsOpenToAll)
            Swap(_request == SwapRequest.NextFile);
        Monitor.PulseAll(Gate);
    }

    /// <summary>No write begins from now on. Those that have the buffer, or room in it, end as ever.</summary>
    public void Close()
    {
        _isClosed = true;
        Monitor.PulseAll(Gate);
    }

    /// <summary>
    /// Whether the calling writer, for which both buffers are full, is one of the few that stay awake until a buffer is free.
    /// More of them, or any on a slow disk, would only keep processors busy: each sealed buffer allows a few.
    /// </summary>
    public bool TryStayAwake()
    {
        if (IsTaken || _sealed is null || _awakeWriters == AwakeWritersMax)
            return false;
        _awakeWriters++;
        return true;
    }

    /// <summary>
    /// Waits while the sealed buffer stays the same, for 100 us at most, without sleeping and without the gate.
    /// <para>The system takes a full buffer in less than 100 us, and 100 us later the next one may be full. A thread that sleeps
    /// comes back after some 50 us, and then displaces one that may be in the middle of a write. So the background thread and a
    /// few writers stay awake that long, and let others run first. Four threads that append: 9 to 10 ns a line; 10 to 12 when one
    /// writer stays awake, 12 when none does.</para>
    /// </summary>
    public void StayAwakeWhile(AppendBuffer? isSealed)
    {
        long begun = Stopwatch.GetTimestamp();
        while (_sealed == isSealed && !_isClosed && Stopwatch.GetElapsedTime(begun) < s_awake)
            Thread.Yield();
    }

    /// <summary>Gives the memory back, once the last copy is done. Nobody uses the stream any more.</summary>
    public void Dispose()
    {
        foreach (AppendBuffer? buffer in _buffers)
        {
            buffer?.WaitForCopies();
            buffer?.Free();
        }
    }
}
