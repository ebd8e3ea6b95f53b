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

    /// <summary>What a connection can suffer.</summary>
    public enum Trouble
    {
        Dropped,
        DeafToBroker,
        DeafToClient,
        HalfClosed,
        Late,
    }

    /// <summary>What it is called in the summary.</summary>
    public static string Words(Trouble trouble) => trouble switch
    {
        Trouble.Dropped => "dropped",
        Trouble.DeafToBroker => "silent to the broker",
        Trouble.DeafToClient => "silent to the client",
        Trouble.HalfClosed => "half closed",
        _ => "late",
    };

    /// <summary>Does something to one of the open connections; false if there is none.</summary>
    public bool Disturb(Trouble trouble, Random random)
    {
        Link link;
        lock (_lock)
        {
            _links.RemoveAll(each => each.IsClosed);
            if (_links.Count == 0)
                return false;
            link = _links[random.Next(_links.Count)];
        }

        switch (trouble)
        {
            case Trouble.Dropped:
                link.Close();
                break;
            case Trouble.DeafToBroker:
                link.StopForward = true;
                break;
            case Trouble.DeafToClient:
                link.StopBack = true;
                break;
            case Trouble.HalfClosed:
                link.CloseHalf(isToBroker: random.Next(2) == 0);
                break;
            default:
                link.DelayMs = random.Next(50, 1500);
                break;
        }

        return true;
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

        /// <summary>One direction ends as if its sender had closed it; the other one continues.</summary>
        public void CloseHalf(bool isToBroker)
        {
            try
            {
                (isToBroker ? _broker : client).Client.Shutdown(SocketShutdown.Send);
            }
            catch (Exception error) when (error is SocketException or ObjectDisposedException)
            {
                // It has ended meanwhile.
            }
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
