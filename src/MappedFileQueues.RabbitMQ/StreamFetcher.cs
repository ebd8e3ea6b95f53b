using MappedFileQueues.RabbitMQ.Fetching;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace MappedFileQueues.RabbitMQ;

/// <summary>
/// Fetches a RabbitMQ stream that a <see cref="StreamForwarder"/> fills into a store of messages: each message once, in order,
/// whatever is killed. It is the only producer of its store.
/// </summary>
public sealed class StreamFetcher
{
    private readonly FetcherLoop _loop;

    /// <summary>Checks the options; nothing is opened yet.</summary>
    /// <param name="options">What to fetch, and where to.</param>
    /// <param name="logger">What it has to tell; addresses come without credentials.</param>
    /// <exception cref="ArgumentException">An option is missing or out of range.</exception>
    public StreamFetcher(StreamFetcherOptions options, ILogger<StreamFetcher>? logger = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        _loop = new FetcherLoop(options, logger ?? NullLogger<StreamFetcher>.Instance);
    }

    /// <summary>
    /// Fetches until cancelled. A broker that cannot be reached, a stream that is not there yet, and a full disk are tried again
    /// for ever, with pauses.
    /// </summary>
    /// <param name="cancellationToken">Ends it; the next run continues where the store ends.</param>
    /// <returns>A task that ends only with an exception.</returns>
    /// <exception cref="OperationCanceledException">Cancelled.</exception>
    /// <exception cref="BridgeException">A person has to decide; the message says what is ambiguous.</exception>
    /// <exception cref="MappedFileQueueException">The store is damaged, of structs, or its path leads to a file.</exception>
    /// <exception cref="InvalidOperationException">It runs already.</exception>
    public Task RunAsync(CancellationToken cancellationToken) => _loop.RunAsync(once: false, cancellationToken);

    /// <summary>What it is doing now. From any thread.</summary>
    /// <returns>The state and the counts since the start.</returns>
    public BridgeStatus GetStatus() => _loop.GetStatus();
}
