using System.Net.Security;
using MappedFileQueues.RabbitMQ.Diagnostics;
using RabbitMQ.Client;

namespace MappedFileQueues.RabbitMQ.Connections;

/// <summary>The addresses of one broker or cluster, tried in turn. Only <see cref="Shown"/> may be logged.</summary>
internal sealed class BrokerAddresses
{
    private const string Name = "MappedFileQueues bridge";

    /// <summary>The longest message that any broker takes, whatever its settings; the client stops at 64 MiB by itself.</summary>
    private const uint MessageLengthMax = 512 * 1024 * 1024;

    private static readonly TimeSpan s_longTime = TimeSpan.FromDays(20);

    private readonly BridgeOptions _options;
    private readonly Uri[] _addresses;
    private int _next;

    public BrokerAddresses(BridgeOptions options)
    {
        _options = options;
        string[] texts = options.Brokers.Split(',', StringSplitOptions.RemoveEmptyEntries | StringSplitOptions.TrimEntries);
        _addresses = [.. texts.Select(Parse)];
        if (_addresses.Length == 0)
            throw new ArgumentException("Brokers is missing: an address such as amqp://host.");
        _next = Random.Shared.Next(_addresses.Length);
    }

    /// <summary>The address that is tried now, without what is secret in it.</summary>
    public string Shown => Show(_addresses[_next]);

    public void MoveOn() => _next = (_next + 1) % _addresses.Length;

    /// <summary>The factory for the address of this turn. The client's own recovery is off: it would continue publishing on a new
    /// channel, behind the back of lock and fence.</summary>
    public ConnectionFactory CreateFactory()
    {
        Uri address = _addresses[_next];
        ConnectionFactory factory = new()
        {
            AutomaticRecoveryEnabled = false,
            TopologyRecoveryEnabled = false,
            RequestedHeartbeat = _options.Heartbeat,
            RequestedConnectionTimeout = _options.RequestTimeout,
            HandshakeContinuationTimeout = _options.RequestTimeout,
            // The connection has the limit; it waits longer while the broker takes nothing.
            ContinuationTimeout = s_longTime,
            SocketReadTimeout = _options.RequestTimeout,
            SocketWriteTimeout = _options.RequestTimeout,
            ClientProvidedName = Name,
            // Without the account: what the client does not get, none of its errors can show.
            Uri = new Uri(address.GetComponents(UriComponents.SchemeAndServer | UriComponents.Path, UriFormat.UriEscaped)),
        };
        // After the address, which sets it to the default.
        factory.MaxInboundMessageBodySize = MessageLengthMax;
        // An address of TLS makes the client take the certificate of any host, as long as somebody vouches for it.
        factory.Ssl.AcceptablePolicyErrors = SslPolicyErrors.None;
        if (PlantedFaults.Has(PlantedFault.AutomaticRecovery))
        {
            factory.NetworkRecoveryInterval = TimeSpan.FromMilliseconds(200);
            factory.AutomaticRecoveryEnabled = true;
        }

        (string? user, string? password) = Account(address);
        factory.UserName = user ?? _options.UserName ?? factory.UserName;
        factory.Password = password ?? _options.Password ?? factory.Password;
        return factory;
    }

    /// <summary>The account of an address. A password may have colons, and what else is escaped in it.</summary>
    private static (string? User, string? Password) Account(Uri address)
    {
        string account = address.UserInfo;
        if (account.Length == 0)
            return (null, null);
        int colon = account.IndexOf(':', StringComparison.Ordinal);
        return colon < 0
            ? (Uri.UnescapeDataString(account), null)
            : (Uri.UnescapeDataString(account[..colon]), Uri.UnescapeDataString(account[(colon + 1)..]));
    }

    private static Uri Parse(string text)
    {
        // The text may hold a password, so no message shows it.
        // One in which a slash or the like was not escaped would be taken apart at the wrong place, and shown with a part of it.
        if (!Uri.TryCreate(text, UriKind.Absolute, out Uri? address) || address.Scheme is not ("amqp" or "amqps")
            || address.Segments.Length > 2 || address.Segments[^1] is [_, .., '/'] || address.AbsolutePath.Contains('@')
            || address.Query.Length > 0 || address.Fragment.Length > 0 || address.Host.Length == 0)
        {
            throw new ArgumentException(
                "An address of a broker looks like amqp://user@host:5672/vhost, or amqps://… for TLS. In a password the "
                + "characters / ? # @ and , are escaped: %2F %3F %23 %40 %2C.");
        }

        return address;
    }

    private static string Show(Uri address) =>
        $"{address.Scheme}://{address.Host}{(address.Port > 0 ? $":{address.Port}" : "")}{address.AbsolutePath.TrimEnd('/')}";
}
