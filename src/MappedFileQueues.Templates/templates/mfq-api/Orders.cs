using System.Text.Json.Serialization;
using MappedFileQueues.Hosting;

namespace MfqApi;

/// <summary>What a request appends.</summary>
public sealed record Order(long Id, decimal Amount);

/// <summary>Where it is in the log.</summary>
public sealed record Receipt(long Offset);

[JsonSerializable(typeof(Order))]
[JsonSerializable(typeof(Receipt))]
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
