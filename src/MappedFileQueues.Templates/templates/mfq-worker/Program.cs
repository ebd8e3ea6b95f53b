using MappedFileQueues;
using MappedFileQueues.Hosting;
using MfqWorker;
using Microsoft.Extensions.Diagnostics.HealthChecks;

HostApplicationBuilder builder = Host.CreateApplicationBuilder(args);
builder.Services
    .AddMappedFileQueue("orders")
    .AddMappedFileConsumer<Order, OrderHandler>(
        "orders",
        new JsonMessageSerializer<Order>(OrderJson.Default.Order),
        consumer => consumer.OnFailure = HandlerFailureAction.DeadLetter)
    .AddSingleton<IHealthCheckPublisher, HealthLog>()
    .AddHealthChecks().AddMappedFileQueue("orders");
builder.Build().Run();
