using MappedFileQueues.RabbitMQ.Connections;
using MappedFileQueues.RabbitMQ.Diagnostics;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client;

namespace MappedFileQueues.RabbitMQ.Fetching;

/// <summary>The attempts of a fetcher. The store is opened anew by each: what it holds says where to continue.</summary>
internal sealed class FetcherLoop(StreamFetcherOptions options, ILogger logger) : BridgeLoop(options, "Fetch", logger)
{
    protected override async Task AttemptAsync(bool once, CancellationToken cancellationToken)
    {
        Connecting();
        TargetStore.ThrowIfFile(options.StorePath);
        await using BrokerConnection connection = await BrokerConnection
            .OpenAsync(Addresses.CreateFactory(), options.RequestTimeout, Blocked, cancellationToken).ConfigureAwait(false);
        if (!await StreamQueue.ExistsAsync(connection, options.Stream, cancellationToken).ConfigureAwait(false))
            throw new BrokerException($"There is no stream yet: stream={options.Stream}.");
        IChannel channel = await connection.OpenChannelAsync(confirms: false, matters: true, cancellationToken)
            .ConfigureAwait(false);
        using TargetStore target = TargetStore.Open(options);
        FetcherSession session = new(
            options, target, connection, channel, () => Running(target.Offset), Ambiguous, OnForeign, Moved);
        await session.RunAsync(cancellationToken).ConfigureAwait(false);
    }

    protected override void Close()
    {
    }
}
