using System.Net;
using System.Net.Sockets;

namespace MappedFileQueues.BridgeLab;

/// <summary>
/// A bad network: it carries bytes between a client and a broker, and delays them, drops connections, or stops carrying in one
/// direction without telling anybody. What a client sent before its death still arrives, late.
/// </summary>
internal sealed class RoughProxy : IDisposable
{
    private readonly TcpListener _listener = new(IPAddress.Loopback, 0);
    private readonly int _target;
    private readonly Lock _lock = new();
    private readonly List<Link> _links = [];

    public RoughProxy(int target)
    {
        _target = target;
        _listener.Start();
        _ = AcceptAsync();
    }

    public int Port => ((IPEndPoint)_listener.LocalEndpoint).Port;

    /// <summary>Does something to one of the open connections; says what.</summary>
    public string? Disturb(Random random)
    {
        Link link;
        lock (_lock)
        {
            _links.RemoveAll(each => each.IsClosed);
            if (_links.Count == 0)
                return null;
            link = _links[random.Next(_links.Count)];
        }

        switch (random.Next(4))
        {
            case 0:
                link.Close();
                return "a connection is dropped";
            case 1:
                link.StopForward = true;
                return "a connection carries nothing to the broker any more";
            case 2:
                link.StopBack = true;
                return "a connection carries nothing to the client any more";
            default:
                link.DelayMs = random.Next(50, 1500);
                return $"a connection is late by {link.DelayMs} ms";
        }
    }

    public void Dispose()
    {
        _listener.Dispose();
        lock (_lock)
            _links.ForEach(link => link.Close());
    }

    private async Task AcceptAsync()
    {
        try
        {
            while (true)
            {
                TcpClient client = await _listener.AcceptTcpClientAsync();
                Link link = new(client);
                lock (_lock)
                    _links.Add(link);
                _ = link.RunAsync(_target);
            }
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException)
        {
            // The laboratory ends.
        }
    }

    private sealed class Link(TcpClient client)
    {
        private readonly TcpClient _broker = new();

        public volatile int DelayMs;

        public volatile bool StopForward;

        public volatile bool StopBack;

        public volatile bool IsClosed;

        public async Task RunAsync(int target)
        {
            try
            {
                client.NoDelay = _broker.NoDelay = true;
                await _broker.ConnectAsync(IPAddress.Loopback, target);
                Task forward = CarryAsync(client.GetStream(), _broker.GetStream(), () => StopForward);
                Task back = CarryAsync(_broker.GetStream(), client.GetStream(), () => StopBack);
                await Task.WhenAny(forward, back);
                // What is on the way to the broker gets there.
                await Task.WhenAny(forward, Task.Delay(2000));
            }
            catch (Exception error) when (error is IOException or SocketException or ObjectDisposedException)
            {
                // One side is gone.
            }

            Close();
        }

        public void Close()
        {
            IsClosed = true;
            client.Dispose();
            _broker.Dispose();
        }

        private async Task CarryAsync(NetworkStream from, NetworkStream to, Func<bool> isStopped)
        {
            byte[] buffer = new byte[64 * 1024];
            while (true)
            {
                int length = await from.ReadAsync(buffer);
                if (length == 0)
                    return;
                if (DelayMs > 0)
                    await Task.Delay(DelayMs);
                while (isStopped() && !IsClosed)
                    await Task.Delay(100);
                await to.WriteAsync(buffer.AsMemory(0, length));
            }
        }
    }
}
