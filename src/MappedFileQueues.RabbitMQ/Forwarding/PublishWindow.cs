using System.Diagnostics;

namespace MappedFileQueues.RabbitMQ.Forwarding;

/// <summary>
/// What was published and not confirmed yet, by the sequence numbers of one channel: they begin at 1 with each channel, and
/// count every message on it. The publisher adds; the client's thread confirms, in any order and in groups.
/// </summary>
internal sealed class PublishWindow(int capacity)
{
    /// <summary>The client keeps what the network has not taken yet in memory, and long records are many bytes.</summary>
    private const long LengthMax = 64 << 20;

    private readonly Lock _lock = new();
    private readonly SemaphoreSlim _changed = new(0, 1);
    private readonly Entry[] _entries = new Entry[capacity];
    private ulong _first = 1;
    private ulong _next = 1;
    private long _length;
    private long _messages;
    private long _bytes;
    private long _confirmTime;

    /// <summary>Everything of the store before this offset is confirmed; -1 before the first confirm of a range.</summary>
    public long ConfirmedTo { get; private set; } = -1;

    public bool IsFull
    {
        get
        {
            lock (_lock)
                return _next - _first >= (ulong)capacity || _length >= LengthMax;
        }
    }

    public bool IsEmpty
    {
        get
        {
            lock (_lock)
                return _next == _first;
        }
    }

    /// <summary>
    /// Since when a confirm is awaited: since the oldest message that has none was published, or since the last confirm of
    /// another one. On a slow network a full window takes long, and confirms come all the time. Null if all are confirmed.
    /// </summary>
    public long? WaitingSince
    {
        get
        {
            lock (_lock)
                return _next == _first ? null : Math.Max(_confirmTime, _entries[_first % (ulong)capacity].Time);
        }
    }

    /// <summary>Notes what is published next. There is room: the publisher has looked.</summary>
    /// <param name="to">Up to where the store is in the stream with it; -1 if it is no range.</param>
    /// <param name="messages">The number of records.</param>
    /// <param name="bytes">Their bytes.</param>
    /// <param name="time">The time now, as a timestamp.</param>
    public void Add(long to, int messages, long bytes, long time)
    {
        lock (_lock)
        {
            _entries[_next++ % (ulong)capacity] = new Entry(to, messages, bytes, time, false);
            _length += bytes;
        }
    }

    /// <summary>The broker has confirmed one message, or all up to it.</summary>
    public void Confirm(ulong number, bool multiple)
    {
        lock (_lock)
        {
            if (number < _first || number >= _next)
                return;
            _confirmTime = Stopwatch.GetTimestamp();
            for (ulong each = multiple ? _first : number; each <= number; each++)
                _entries[each % (ulong)capacity].IsConfirmed = true;
            for (; _first < _next && _entries[_first % (ulong)capacity] is { IsConfirmed: true } entry; _first++)
            {
                ConfirmedTo = Math.Max(ConfirmedTo, entry.To);
                _messages += entry.Messages;
                _bytes += entry.Bytes;
                _length -= entry.Bytes;
            }
        }

        Wake();
    }

    /// <summary>What was confirmed since the last call.</summary>
    public (long Messages, long Bytes) TakeConfirmed()
    {
        lock (_lock)
        {
            (long, long) taken = (_messages, _bytes);
            (_messages, _bytes) = (0, 0);
            return taken;
        }
    }

    /// <summary>Waits until something was confirmed since the last wait, or the time is over.</summary>
    public Task WaitAsync(TimeSpan limit, CancellationToken cancellationToken) => _changed.WaitAsync(limit, cancellationToken);

    private void Wake()
    {
        try
        {
            if (_changed.CurrentCount == 0)
                _changed.Release();
        }
        catch (SemaphoreFullException)
        {
            // Another confirm woke the waiter in the same moment.
        }
    }

    private record struct Entry(long To, int Messages, long Bytes, long Time, bool IsConfirmed);
}
