using System.Buffers.Binary;
using System.Net;
using System.Net.Sockets;

namespace MappedFileQueues.Tests.Bridge;

/// <summary>
/// Stands between a client and a broker, and turns some confirms into refusals. RabbitMQ 3.10 refuses a message of a stream only
/// in a crash that cannot be had on demand; `basic.ack` and `basic.nack` (AMQP 0-9-1, 60.80 and 60.120) have the same length and
/// fields.
/// </summary>
internal sealed class NackProxy : IDisposable
{
    private const int FrameOverhead = 8;
    private const byte MethodFrame = 1;
    private const uint Ack = (60 << 16) | 80;
    private const ushort Nack = 120;

    private readonly TcpListener _listener = new(IPAddress.Loopback, 0);
    private readonly CancellationTokenSource _stop = new();
    private readonly int _target;
    private readonly Func<int, bool> _refuses;
    private int _confirms;

    /// <param name="target">The broker's port.</param>
    /// <param name="refuses">Whether the confirm of this number, from 0 on over all connections, becomes a refusal.</param>
    public NackProxy(int target, Func<int, bool> refuses)
    {
        (_target, _refuses) = (target, refuses);
        _listener.Start();
        _ = AcceptAsync();
    }

    public int Port => ((IPEndPoint)_listener.LocalEndpoint).Port;

    public int Refusals { get; private set; }

    /// <summary>Ends the connections too: to the clients the broker is gone.</summary>
    public void Dispose()
    {
        _stop.Cancel();
        _listener.Dispose();
    }

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
        using TcpClient broker = new();
        await broker.ConnectAsync(IPAddress.Loopback, _target, _stop.Token);
        Task there = near.GetStream().CopyToAsync(broker.GetStream(), _stop.Token);
        Task back = CarryBackAsync(broker.GetStream(), near.GetStream());
        await Task.WhenAny(there, back);
    }

    private async Task CarryBackAsync(NetworkStream from, NetworkStream to)
    {
        byte[] frame = new byte[1 << 20];
        while (true)
        {
            await from.ReadExactlyAsync(frame.AsMemory(0, FrameOverhead - 1), _stop.Token);
            int length = BinaryPrimitives.ReadInt32BigEndian(frame.AsSpan(3));
            await from.ReadExactlyAsync(frame.AsMemory(FrameOverhead - 1, length + 1), _stop.Token);
            Change(frame);
            await to.WriteAsync(frame.AsMemory(0, length + FrameOverhead), _stop.Token);
        }
    }

    private void Change(byte[] frame)
    {
        Span<byte> method = frame.AsSpan(FrameOverhead - 1);
        if (frame[0] != MethodFrame || BinaryPrimitives.ReadUInt32BigEndian(method) != Ack || !_refuses(_confirms++))
            return;
        BinaryPrimitives.WriteUInt16BigEndian(method[2..], Nack);
        Refusals++;
    }
}
