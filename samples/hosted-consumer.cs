// A queue and its consumer in an application: registered by name, opened and closed by the container, a handler that is called
// again when it fails, dead letters, health.
// Run it with: dotnet run samples/hosted-consumer.cs
#:project ../src/MappedFileQueues.Hosting/MappedFileQueues.Hosting.csproj
#:package Microsoft.Extensions.Hosting
using MappedFileQueues;
using MappedFileQueues.Hosting;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;

string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    HostApplicationBuilder builder = Host.CreateApplicationBuilder();
    builder.Services
        .AddMappedFileQueue<Order>("orders", o => o.StorePath = Path.Combine(folder, "orders"))
        .AddMappedFileConsumer<Order, OrderHandler>("orders", o => o.OnFailure = HandlerFailureAction.DeadLetter)
        .AddHealthChecks().AddMappedFileQueue("orders");
    using IHost host = builder.Build();
    await host.StartAsync();

    // Anywhere in the application: [FromKeyedServices("orders")] MappedFileQueue<Order> queue
    var queue = host.Services.GetRequiredKeyedService<MappedFileQueue<Order>>("orders");
    for (int id = 1; id <= 100; id++)
        queue.Producer.Produce(new Order { Id = id, Amount = id == 50 ? -1 : id });
    long end = queue.GetInfo().PublishedOffset;
    while (queue.GetInfo().Consumers is not [{ Offset: var committed }] || committed < end)
        await Task.Delay(10);

    HealthReport health = await host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync();
    await host.StopAsync();   // the message in hand is finished and committed; nothing else is begun

    using MappedFileReader letters = MappedFileReader.Open(Path.Combine(folder, "orders-dead-letters"));
    letters.TryRead(out ReadOnlySpan<byte> message);
    DeadLetter letter = DeadLetter.Parse(message);
    Console.WriteLine($"sum {OrderHandler.Sum}, health {health.Status}, dead letter from offset {letter.Offset}: {letter.Error}");
    return OrderHandler.Sum == 5000 && letter.Attempts == 5 ? 0 : 1;
}
finally
{
    Directory.Delete(folder, recursive: true);
}

internal struct Order
{
    public long Id;
    public long Amount;
}

internal sealed class OrderHandler : IMessageHandler<Order>
{
    public static long Sum { get; private set; }

    public ValueTask HandleAsync(Order order, ConsumeContext context, CancellationToken cancellationToken)
    {
        if (order.Amount < 0)
            throw new InvalidOperationException($"Order {order.Id} has no amount.");
        Sum += order.Amount;
        return default;
    }
}
