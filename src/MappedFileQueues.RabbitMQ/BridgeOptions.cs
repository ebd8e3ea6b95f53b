namespace MappedFileQueues.RabbitMQ;

/// <summary>What forwarders and fetchers have in common.</summary>
public abstract class BridgeOptions
{
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

    /// <summary>The stream's name.</summary>
    public string Stream { get; set; } = "";

    /// <summary>The directory of the store.</summary>
    public string StorePath { get; set; } = "";

    /// <summary>Whether a store on a network or FUSE file system is used. Default false.</summary>
    public bool DangerouslyAllowFileSystem { get; set; }

    /// <summary>What happens when the source is not certain to go on where the stream ends. Default: stop.</summary>
    public SourceChangePolicy OnSourceChange { get; set; }

    /// <summary>The longest wait for any answer of the broker; after it the connection is given up. Default 15 s.</summary>
    public TimeSpan RequestTimeout { get; set; } = TimeSpan.FromSeconds(15);

    /// <summary>The broker and the client give a silent connection up after twice this time. Default 10 s.</summary>
    public TimeSpan Heartbeat { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>The pause after the first failure; each further one doubles it. Default 100 ms.</summary>
    public TimeSpan BackOffMin { get; set; } = TimeSpan.FromMilliseconds(100);

    /// <summary>The longest pause between two attempts; the real pause is random up to it. Default 10 s.</summary>
    public TimeSpan BackOffMax { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>The clock of the pauses. Default: the system's.</summary>
    public TimeProvider TimeProvider { get; set; } = TimeProvider.System;

    internal virtual void Check()
    {
        if (string.IsNullOrWhiteSpace(StorePath))
            throw new ArgumentException("StorePath is missing: the directory of the store.");
        if (string.IsNullOrWhiteSpace(Stream))
            throw new ArgumentException("Stream is missing: the name of the stream.");
        if (string.IsNullOrWhiteSpace(Brokers))
            throw new ArgumentException("Brokers is missing: an address such as amqp://host.");
        ArgumentOutOfRangeException.ThrowIfLessThanOrEqual(RequestTimeout, TimeSpan.Zero, nameof(RequestTimeout));
        ArgumentOutOfRangeException.ThrowIfLessThanOrEqual(BackOffMin, TimeSpan.Zero, nameof(BackOffMin));
        ArgumentOutOfRangeException.ThrowIfLessThan(BackOffMax, BackOffMin, nameof(BackOffMax));
        ArgumentOutOfRangeException.ThrowIfLessThan(Heartbeat, TimeSpan.FromSeconds(1), nameof(Heartbeat));
    }
}
