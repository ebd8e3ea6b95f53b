using MappedFileQueues.RabbitMQ.Connections;

namespace MappedFileQueues.RabbitMQ;

/// <summary>What forwarders and fetchers have in common.</summary>
public abstract class BridgeOptions
{
    /// <summary>The broker's own limit for a heartbeat is somewhat above it; timers have one too.</summary>
    private static readonly TimeSpan s_timeMax = TimeSpan.FromHours(12);

    /// <summary>A queue's name may have 255 bytes, and that of the lock is longer than the stream's.</summary>
    private const int NameLengthMax = 200;

    private protected BridgeOptions()
    {
    }

    /// <summary>
    /// The brokers: one address, or several of one cluster with commas between them, such as
    /// <c>amqps://orders@n1,amqps://orders@n2</c>. <c>amqps</c> is TLS. Never logged with its user or password.
    /// </summary>
    public string Brokers { get; set; } = "";

    /// <summary>The account, where the address names none. Default: that of the address, or <c>guest</c>.</summary>
    public string? UserName { get; set; }

    /// <summary>The password, where the address names none.</summary>
    public string? Password { get; set; }

    /// <summary>The stream's name; at most 200 bytes.</summary>
    public string Stream { get; set; } = "";

    /// <summary>The directory of the store.</summary>
    public string StorePath { get; set; } = "";

    /// <summary>Whether a store on a network or FUSE file system is used. Default false.</summary>
    public bool DangerouslyAllowFileSystem { get; set; }

    /// <summary>What happens when the source is not certain to continue where the stream ends. Default: stop.</summary>
    public SourceChangePolicy OnSourceChange { get; set; }

    /// <summary>
    /// The longest wait for any answer of the broker; after it the connection is given up. It begins anew while a slow network
    /// still takes or brings a long message. Default 15 s; as every time here, at most 12 hours.
    /// </summary>
    public TimeSpan RequestTimeout { get; set; } = TimeSpan.FromSeconds(15);

    /// <summary>The broker and the client give a silent connection up after twice this time. Default 10 s.</summary>
    public TimeSpan Heartbeat { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>The pause after the first failure; each further one doubles it. Default 100 ms.</summary>
    public TimeSpan BackOffMin { get; set; } = TimeSpan.FromMilliseconds(100);

    /// <summary>The longest pause between two attempts; the real pause is random up to it. Default 10 s.</summary>
    public TimeSpan BackOffMax { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>The clock of the pauses. Default: the system's.</summary>
    public TimeProvider TimeProvider { get; set; } = TimeProvider.System;

    /// <summary>
    /// Whether a store that is not there is waited for: the producers of the same application may make it later.
    /// </summary>
    internal bool AwaitsStore { get; set; }

    internal virtual void Check()
    {
        if (string.IsNullOrWhiteSpace(StorePath))
            throw new ArgumentException("StorePath is missing: the directory of the store.");
        if (string.IsNullOrWhiteSpace(Stream))
            throw new ArgumentException("Stream is missing: the name of the stream.");
        if (string.IsNullOrWhiteSpace(Brokers))
            throw new ArgumentException("Brokers is missing: an address such as amqp://host.");
        int length = System.Text.Encoding.UTF8.GetByteCount(Stream);
        if (length > NameLengthMax)
            throw new ArgumentException($"Stream is too long: bytes={length}, most={NameLengthMax}.");
        ArgumentNullException.ThrowIfNull(TimeProvider);
        ThrowIfUndefined(OnSourceChange, nameof(OnSourceChange));
        _ = new BrokerAddresses(this);
        TimeSpan tick = TimeSpan.FromTicks(1);
        CheckTime(RequestTimeout, tick, nameof(RequestTimeout));
        CheckTime(BackOffMin, tick, nameof(BackOffMin));
        CheckTime(BackOffMax, BackOffMin, nameof(BackOffMax));
        CheckTime(Heartbeat, TimeSpan.FromSeconds(1), nameof(Heartbeat));
    }

    /// <summary>A number from a configuration may be no policy; which one it meant, nobody knows.</summary>
    private protected static void ThrowIfUndefined<T>(T value, string name)
        where T : struct, Enum
    {
        if (!Enum.IsDefined(value))
            throw new ArgumentOutOfRangeException(name, value, $"{name} must be one of {string.Join(", ", Enum.GetNames<T>())}.");
    }

    private protected static void CheckTime(TimeSpan value, TimeSpan least, string name)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(value, least, name);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(value, s_timeMax, name);
    }
}
