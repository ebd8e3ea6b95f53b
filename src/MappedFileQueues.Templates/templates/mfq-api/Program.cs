using System.Text.Json;
using MappedFileQueues;
using MappedFileQueues.Hosting;
using MfqApi;

WebApplicationBuilder builder = WebApplication.CreateBuilder(args);
builder.Services.ConfigureHttpJsonOptions(o => o.SerializerOptions.TypeInfoResolverChain.Insert(0, OrderJson.Default));
builder.Services
    .AddMappedFileQueue("orders")
    .AddMappedFileConsumer<Order, OrderHandler>("orders", new JsonMessageSerializer<Order>(OrderJson.Default.Order))
    .AddHealthChecks().AddMappedFileQueue("orders");
WebApplication app = builder.Build();

// Answers when the order is on disk: appsettings.json sets Durability to Group, and requests share a flush.
app.MapPost("/orders", async (Order order, [FromKeyedServices("orders")] MappedFileQueue queue) =>
{
    byte[] message = JsonSerializer.SerializeToUtf8Bytes(order, OrderJson.Default.Order);
    return TypedResults.Accepted((string?)null, new Receipt(await queue.Producer.ProduceAsync(message)));
});
app.MapHealthChecks("/health");
app.Run();
