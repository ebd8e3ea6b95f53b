using System.Diagnostics;
using System.Net.Sockets;
using RabbitMQ.Client;

namespace MappedFileQueues.RabbitMQ.Connections;

/// <summary>
/// A socket that closes itself when nothing comes any more. The client notices that too, after three heartbeats; but it then
/// closes the connection in the callback of its timer, where it may wait for a write that never ends, or meet an exception, which
/// it swallows: then it never looks again (7.2.2; before 7.2.1 that exception ended the process, its issue 1884). Once the socket
/// is closed, its reading ends first, on a task of its own, and stops that timer.
/// </summary>
internal sealed class WatchedSocket(AddressFamily family)
    : TcpClientAdapter(new Socket(family, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true })
{
    private const int LooksPerLimit = 8;
    private const int PieceLength = 256 * 1024;

    /// <summary>Heartbeats and answers are shorter than what a span of time brings of a long message.</summary>
    private const int LittleLength = 512;

    private static readonly TimeSpan s_span = TimeSpan.FromMilliseconds(200);

    private readonly Lock _lock = new();
    private Timer? _timer;
    private long _readTime;
    private long _spanTime;
    private long _spanLength;
    private long _pullTime;
    private long _pushTime;
    private bool _isClosed;

    /// <summary>When a piece of a message came last, as a timestamp; 0 if none did.</summary>
    public long PullTime => Volatile.Read(ref _pullTime);

    /// <summary>When a network that is slower than this side has taken something last, as a timestamp; 0 if none was.</summary>
    public long PushTime => Volatile.Read(ref _pushTime);

    /// <summary>Watches from now on.</summary>
    /// <param name="limit">How long nothing may come: two heartbeats, of which a broker sends one in half their time.</param>
    /// <param name="onSilent">Hears of it before the socket is closed.</param>
    public void Watch(TimeSpan limit, Action onSilent)
    {
        Volatile.Write(ref _readTime, Stopwatch.GetTimestamp());
        lock (_lock)
        {
            if (!_isClosed)
                _timer = new Timer(_ => Look(limit, onSilent), null, limit / LooksPerLimit, limit / LooksPerLimit);
        }
    }

    public override NetworkStream GetStream() => new WatchedStream(this);

    public override void Close()
    {
        lock (_lock)
        {
            _isClosed = true;
            _timer?.Dispose();
        }

        base.Close();
    }

    /// <summary>One reader at a time. A relay may bring a long message in very small pieces, so a span of time counts.</summary>
    private void NoteRead(int length)
    {
        long now = Stopwatch.GetTimestamp();
        Volatile.Write(ref _readTime, now);
        if (Stopwatch.GetElapsedTime(_spanTime, now) > s_span)
            (_spanTime, _spanLength) = (now, 0);
        _spanLength += length;
        if (_spanLength > LittleLength)
            Volatile.Write(ref _pullTime, now);
    }

    private void Look(TimeSpan limit, Action onSilent)
    {
        try
        {
            // What has come and is not read yet is no silence: this process was too busy, or stopped.
            if (Stopwatch.GetElapsedTime(Volatile.Read(ref _readTime)) < limit || Client.Available > 0)
                return;
        }
        catch (Exception error) when (error is ObjectDisposedException or SocketException)
        {
            // It is closed, or broken; whoever reads it hears of that.
            return;
        }

        onSilent();
        Close();
    }

    private sealed class WatchedStream(WatchedSocket owner) : NetworkStream(owner.Client)
    {
        public override async ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
        {
            int length = await base.ReadAsync(buffer, cancellationToken).ConfigureAwait(false);
            owner.NoteRead(length);
            return length;
        }

        public override async ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
        {
            // The client hands over a message of any length in one piece, and a look at the time needs steps.
            while (true)
            {
                int length = Math.Min(buffer.Length, PieceLength);
                ValueTask writing = base.WriteAsync(buffer[..length], cancellationToken);
                bool isSlow = !writing.IsCompleted;
                await writing.ConfigureAwait(false);
                if (isSlow)
                    Volatile.Write(ref owner._pushTime, Stopwatch.GetTimestamp());
                buffer = buffer[length..];
                if (buffer.IsEmpty)
                    return;
            }
        }
    }
}
