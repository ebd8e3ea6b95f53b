using System.Buffers.Binary;
using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace MappedFileQueues.Tests.Bridge;

/// <summary>
/// Stands between a client and a broker, reads the frames of AMQP 0-9-1 that pass, and makes trouble: it turns confirms into
/// refusals, falls silent, is slow. RabbitMQ 3.10 refuses a message of a stream only in a crash that cannot be had on demand;
/// `basic.ack` and `basic.nack` have the same length and fields.
/// </summary>
internal sealed class FrameProxy : IDisposable
{
    /// <summary>`basic.consume-ok`, by class and number as in the specification.</summary>
    public const uint ConsumeOk = (60 << 16) | 21;

    private const uint ConnectionBlocked = (10 << 16) | 60;
    private const uint ConnectionUnblocked = (10 << 16) | 61;
    private const uint ChannelClose = (20 << 16) | 40;
    private const uint Publish = (60 << 16) | 40;
    private const uint Deliver = (60 << 16) | 60;
    private const uint Ack = (60 << 16) | 80;
    private const ushort Nack = 120;
    private const int GreetingLength = 8;
    private const int FrameOverhead = 8;
    private const byte MethodFrame = 1;
    private const byte FrameEnd = 0xCE;

    /// <summary>Where the arguments of a method begin, behind the frame's head and the method's number.</summary>
    private const int ArgumentsAt = FrameOverhead - 1 + 4;

    private readonly Lock _lock = new();
    private readonly Dictionary<(TcpClient, ushort), SortedSet<ulong>> _open = [];
    private readonly Dictionary<(TcpClient, ushort), HashSet<string>> _published = [];
    private readonly ConcurrentDictionary<TcpClient, SemaphoreSlim> _writing = [];
    private readonly ConcurrentDictionary<TcpClient, bool> _silent = [];
    private readonly TcpListener _listener = new(IPAddress.Loopback, 0);
    private readonly CancellationTokenSource _stop = new();
    private readonly int _target;
    private (TcpClient, ushort)? _forgotten;
    private int _confirms;
    private int _connections;
    private volatile bool _isBlocked;

    /// <param name="target">The broker's port.</param>
    public FrameProxy(int target)
    {
        _target = target;
        _listener.Start();
        _ = AcceptAsync();
    }

    public int Port => ((IPEndPoint)_listener.LocalEndpoint).Port;

    public string Address => $"amqp://guest:guest@127.0.0.1:{Port}";

    /// <summary>Whether the confirm of this number, from 0 on over all connections, becomes a refusal.</summary>
    public Func<int, bool> Refuses { get; init; } = _ => false;

    /// <summary>Once, the client hears nothing more of its connection after this method of the broker.</summary>
    public uint? SilentAfter { get; set; }

    /// <summary>Once, the channel of the next delivered message hears nothing more, as if the broker had forgotten it.</summary>
    public bool ForgetsReader { get; set; }

    /// <summary>How quick the way to the broker is; null: as it is.</summary>
    public int? BytesPerSecond { get; init; }

    /// <summary>How quick the way from the broker is; null: as it is.</summary>
    public int? BytesPerSecondBack { get; init; }

    /// <summary>In which pieces, as a relay may bring them; null: whole frames.</summary>
    public int? PieceLengthBack { get; init; }

    /// <summary>The client's connections that it has not closed.</summary>
    public int OpenConnections => Volatile.Read(ref _connections);

    public int Refusals { get; private set; }

    /// <summary>The broker's confirms, also those that became refusals.</summary>
    public int Confirms => Volatile.Read(ref _confirms);

    /// <summary>The messages that the broker has delivered.</summary>
    public int Deliveries { get; private set; }

    /// <summary>The acknowledgements of the client.</summary>
    public int Acks { get; private set; }

    /// <summary>The delivered messages that the client has not acknowledged on channels that it still has.</summary>
    public int OpenDeliveries
    {
        get
        {
            lock (_lock)
                return _open.Values.Sum(tags => tags.Count);
        }
    }

    /// <summary>Into which queues each channel has published, without those that published nothing.</summary>
    public IReadOnlyList<IReadOnlySet<string>> PublishedTo
    {
        get
        {
            lock (_lock)
                return [.. _published.Values];
        }
    }

    /// <summary>Takes nothing more of the connections, and says so, as a broker without memory does; or takes it again.</summary>
    public async Task BlockAsync(string? reason)
    {
        _isBlocked = reason is not null;
        byte[] text = Encoding.UTF8.GetBytes(reason ?? "");
        byte[] frame = new byte[FrameOverhead + 4 + (reason is null ? 0 : 1 + text.Length)];
        frame[0] = MethodFrame;
        BinaryPrimitives.WriteInt32BigEndian(frame.AsSpan(3), frame.Length - FrameOverhead);
        BinaryPrimitives.WriteUInt32BigEndian(
            frame.AsSpan(FrameOverhead - 1), reason is null ? ConnectionUnblocked : ConnectionBlocked);
        if (reason is not null)
        {
            frame[ArgumentsAt] = (byte)text.Length;
            text.CopyTo(frame, ArgumentsAt + 1);
        }

        frame[^1] = FrameEnd;
        foreach ((TcpClient client, SemaphoreSlim writing) in _writing)
            await WriteAsync(client.GetStream(), writing, frame);
    }

    /// <summary>
    /// Nothing more passes on the connections that are open now, in neither direction; their bytes stay in the sockets.
    /// </summary>
    public void FallSilent()
    {
        foreach (TcpClient client in _writing.Keys)
            _silent[client] = true;
    }

    public void Dispose()
    {
        _stop.Cancel();
        _listener.Dispose();
    }

    private static uint Method(ReadOnlySpan<byte> frame) =>
        frame[0] == MethodFrame ? BinaryPrimitives.ReadUInt32BigEndian(frame[(FrameOverhead - 1)..]) : 0;

    private static ulong ReadTag(ReadOnlySpan<byte> bytes) => BinaryPrimitives.ReadUInt64BigEndian(bytes);

    private static (TcpClient Client, ushort Number) Channel(TcpClient client, ReadOnlySpan<byte> frame) =>
        (client, BinaryPrimitives.ReadUInt16BigEndian(frame[1..]));

    private async Task AcceptAsync()
    {
        try
        {
            while (true)
                _ = CarryAsync(await _listener.AcceptTcpClientAsync(_stop.Token));
        }
        catch (OperationCanceledException)
        {
            // The test is over.
        }
    }

    private async Task CarryAsync(TcpClient client)
    {
        using TcpClient near = client;
        // Pieces stay pieces.
        near.NoDelay = true;
        using TcpClient broker = new();
        await broker.ConnectAsync(IPAddress.Loopback, _target, _stop.Token);
        Task there = CarryThereAsync(near, near.GetStream(), broker.GetStream());
        Task back = CarryBackAsync(near, broker.GetStream(), near.GetStream());
        await Task.WhenAny(there, back);
    }

    private async Task CarryThereAsync(TcpClient client, NetworkStream from, NetworkStream to)
    {
        byte[] frame = new byte[1 << 20];
        Interlocked.Increment(ref _connections);
        // What the system takes ahead is not slow.
        if (BytesPerSecond is not null)
            client.ReceiveBufferSize = 1 << 16;
        _writing[client] = new SemaphoreSlim(1, 1);
        try
        {
            await from.ReadExactlyAsync(frame.AsMemory(0, GreetingLength), _stop.Token);
            await to.WriteAsync(frame.AsMemory(0, GreetingLength), _stop.Token);
            while (true)
            {
                int length = await ReadFrameAsync(from, frame);
                Note(client, frame);
                if (BytesPerSecond is { } speed)
                    await Task.Delay(TimeSpan.FromSeconds((double)length / speed), _stop.Token);
                while (_isBlocked)
                    await Task.Delay(5, _stop.Token);
                await WaitIfSilentAsync(client);
                await to.WriteAsync(frame.AsMemory(0, length), _stop.Token);
            }
        }
        finally
        {
            _writing.TryRemove(client, out _);
            Interlocked.Decrement(ref _connections);
        }
    }

    private async Task CarryBackAsync(TcpClient client, NetworkStream from, NetworkStream to)
    {
        byte[] frame = new byte[1 << 20];
        while (true)
        {
            int length = await ReadFrameAsync(from, frame);
            uint method = Method(frame);
            if (method == Deliver && ForgetsReader)
                (ForgetsReader, _forgotten) = (false, Channel(client, frame));
            if (_forgotten == Channel(client, frame))
                continue;
            if (method == Deliver)
                Note(client, frame);
            if (method == Ack && Refuses(_confirms++))
            {
                BinaryPrimitives.WriteUInt16BigEndian(frame.AsSpan(FrameOverhead + 1), Nack);
                Refusals++;
            }

            await WaitIfSilentAsync(client);
            await WriteAsync(to, _writing.GetValueOrDefault(client), frame.AsMemory(0, length));
            if (method == SilentAfter)
            {
                SilentAfter = null;
                await from.CopyToAsync(Stream.Null, _stop.Token);
            }
        }
    }

    private void Note(TcpClient client, ReadOnlySpan<byte> frame)
    {
        ReadOnlySpan<byte> arguments = frame[ArgumentsAt..];
        lock (_lock)
        {
            (TcpClient, ushort) channel = Channel(client, frame);
            if (!_open.TryGetValue(channel, out SortedSet<ulong>? tags))
                _open[channel] = tags = [];
            switch (Method(frame))
            {
                case Publish:
                    if (!_published.TryGetValue(channel, out HashSet<string>? queues))
                        _published[channel] = queues = [];
                    ReadOnlySpan<byte> key = arguments[(sizeof(ushort) + 1 + arguments[sizeof(ushort)])..];
                    queues.Add(Encoding.UTF8.GetString(key.Slice(1, key[0])));
                    break;
                case Deliver:
                    Deliveries++;
                    tags.Add(ReadTag(arguments[(1 + arguments[0])..]));
                    break;
                case Ack:
                    Acks++;
                    ulong tag = ReadTag(arguments);
                    bool isMultiple = (arguments[sizeof(ulong)] & 1) != 0;
                    tags.RemoveWhere(each => each == tag || (isMultiple && each < tag));
                    break;
                case ChannelClose:
                    tags.Clear();
                    break;
            }
        }
    }

    private async Task WriteAsync(NetworkStream to, SemaphoreSlim? writing, ReadOnlyMemory<byte> frame)
    {
        if (writing is null)
            return;
        await writing.WaitAsync(_stop.Token);
        try
        {
            int piece = PieceLengthBack ?? frame.Length;
            for (int at = 0; at < frame.Length; at += piece)
            {
                int length = Math.Min(piece, frame.Length - at);
                if (BytesPerSecondBack is { } speed)
                    await Task.Delay(TimeSpan.FromSeconds((double)length / speed), _stop.Token);
                await to.WriteAsync(frame.Slice(at, length), _stop.Token);
            }
        }
        finally
        {
            writing.Release();
        }
    }

    private Task WaitIfSilentAsync(TcpClient client) =>
        _silent.ContainsKey(client) ? Task.Delay(Timeout.Infinite, _stop.Token) : Task.CompletedTask;

    private async Task<int> ReadFrameAsync(NetworkStream from, byte[] frame)
    {
        await from.ReadExactlyAsync(frame.AsMemory(0, FrameOverhead - 1), _stop.Token);
        int length = BinaryPrimitives.ReadInt32BigEndian(frame.AsSpan(3));
        await from.ReadExactlyAsync(frame.AsMemory(FrameOverhead - 1, length + 1), _stop.Token);
        return length + FrameOverhead;
    }
}
