using System.Text.Json.Serialization;
using MappedFileQueues.Hosting;

namespace MfqWorker;

/// <summary>A message. Any process on this machine may append it: <c>mfq produce data/orders --lines FILE</c>.</summary>
public sealed record Order(long Id, decimal Amount);

[JsonSerializable(typeof(Order))]
public sealed partial class OrderJson : JsonSerializerContext;

/// <summary>Is given each order at least once, and again when it throws.</summary>
public sealed class OrderHandler(ILogger<OrderHandler> log) : IMessageHandler<Order>
{
    public ValueTask HandleAsync(Order order, ConsumeContext context, CancellationToken cancellationToken)
    {
        log.LogInformation("Order {Id} of {Amount}, from offset {Offset}", order.Id, order.Amount, context.Offset);
        return default;
    }
}
