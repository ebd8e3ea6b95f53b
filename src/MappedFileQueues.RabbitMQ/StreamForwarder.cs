using MappedFileQueues.RabbitMQ.Forwarding;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace MappedFileQueues.RabbitMQ;

/// <summary>
/// Forwards a store of messages into a RabbitMQ stream: each message once, in order, whatever is killed. One forwarder at a time
/// per store and stream; others wait for the lock. What was confirmed by the broker decides where it continues.
/// </summary>
public sealed class StreamForwarder
{
    private readonly ForwarderLoop _loop;

    /// <summary>Checks the options; nothing is opened yet.</summary>
    /// <param name="options">What to forward, and where.</param>
    /// <param name="logger">What it has to tell; addresses come without credentials.</param>
    /// <exception cref="ArgumentException">An option is missing or out of range.</exception>
    public StreamForwarder(StreamForwarderOptions options, ILogger<StreamForwarder>? logger = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        _loop = new ForwarderLoop(options, logger ?? NullLogger<StreamForwarder>.Instance);
    }

    /// <summary>Forwards until cancelled. A broker that cannot be reached is tried again for ever, with pauses.</summary>
    /// <param name="cancellationToken">Ends it; what the broker has not confirmed is sent by the next run.</param>
    /// <returns>A task that ends only with an exception.</returns>
    /// <exception cref="OperationCanceledException">Cancelled.</exception>
    /// <exception cref="BridgeException">A person has to decide; the message says what is ambiguous.</exception>
    /// <exception cref="MappedFileQueueException">The store is missing, damaged, of structs, or its path leads to a
    /// file.</exception>
    /// <exception cref="InvalidOperationException">It runs already.</exception>
    public Task RunAsync(CancellationToken cancellationToken) => _loop.RunAsync(once: false, cancellationToken);

    /// <summary>
    /// Forwards what is in the store now, and returns once the broker has confirmed it. A broker that cannot be reached is tried
    /// again for ever; one that denies the account, its virtual host or a right ends the call (<see cref="BridgeFault.Denied"/>).
    /// </summary>
    /// <param name="cancellationToken">Ends it.</param>
    /// <returns>A task that completes when all of it is in the stream.</returns>
    /// <inheritdoc cref="RunAsync"/>
    public Task RunOnceAsync(CancellationToken cancellationToken) => _loop.RunAsync(once: true, cancellationToken);

    /// <summary>What it is doing now. From any thread.</summary>
    /// <returns>The state and the counts since the start.</returns>
    public BridgeStatus GetStatus() => _loop.GetStatus();
}
