// A web API that appends each request to a queue, and a worker in the same application that handles them. An order that was
// answered with 202 is on disk. It is handled whatever becomes of the process or the power, and its effect is there once.
// A disk with 256 MiB is enough for it.
// Run it with: dotnet run samples/minimal-api.cs -- --store /var/lib/shop --urls http://127.0.0.1:5080
// Without --store it serves a folder for itself, sends itself a few orders, and ends.
#:sdk Microsoft.NET.Sdk.Web
#:project ../src/MappedFileQueues.Hosting/MappedFileQueues.Hosting.csproj
using System.Globalization;
using System.Net.Http.Json;
using System.Text;
using System.Text.Json;
using System.Text.Json.Serialization;
using MappedFileQueues;
using MappedFileQueues.Hosting;

string? store = args is ["--store", string path, ..] ? path : null;
string folder = store ?? Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    string[] webArgs = store is null ? ["--urls", "http://127.0.0.1:0"] : args[2..];
    WebApplicationBuilder builder = WebApplication.CreateSlimBuilder(webArgs);
    builder.Logging.AddFilter("Microsoft.AspNetCore", LogLevel.Warning);
    builder.Services.ConfigureHttpJsonOptions(o => o.SerializerOptions.TypeInfoResolverChain.Insert(0, OrderJson.Default));
    builder.Services.AddSingleton(_ => new Ledger(Path.Combine(folder, "ledger")));
    builder.Services
        .AddMappedFileQueue("orders", o =>
        {
            o.StorePath = Path.Combine(folder, "orders");
            o.Durability = DurabilityLevel.Group;   // ProduceAsync ends when the order is on disk; requests share a flush
            o.SegmentSize = 4 << 20;                // with the default, 64 MiB, the next segment alone is half a small disk
            o.Retention = new RetentionOptions { MaxBytes = 64 << 20 };   // of what was handled; the rest always stays
        })
        .AddMappedFileConsumer<Order, OrderHandler>(
            "orders",
            new JsonMessageSerializer<Order>(OrderJson.Default.Order),
            o => o.DurableOnly = true)              // the offset of an order that a power loss takes is used again
        .AddHealthChecks().AddMappedFileQueue("orders", health => health.FreeBytesMin = 32 << 20);
    await using WebApplication app = builder.Build();

    app.MapPost("/orders", async (Order order, [FromKeyedServices("orders")] MappedFileQueue queue) =>
    {
        byte[] message = JsonSerializer.SerializeToUtf8Bytes(order, OrderJson.Default.Order);
        long offset = await queue.Producer.ProduceAsync(message);
        return TypedResults.Accepted((string?)null, new Receipt(offset));
    });
    app.MapGet("/ledger", (Ledger ledger) => ledger.Count);
    app.MapHealthChecks("/health");

    if (store is not null)
    {
        await app.RunAsync();
        return 0;
    }

    await app.StartAsync();
    using var client = new HttpClient { BaseAddress = new Uri(app.Urls.Single()) };
    for (int id = 1; id <= 100; id++)
        (await client.PostAsJsonAsync("/orders", new Order(id, 19.9m), OrderJson.Default.Order)).EnsureSuccessStatusCode();
    while (await client.GetStringAsync("/ledger") != "100")
        await Task.Delay(10);
    string health = await client.GetStringAsync("/health");
    await app.StopAsync();
    Console.WriteLine($"100 orders handled, health {health}");
    return health == "Healthy" ? 0 : 1;
}
finally
{
    if (store is null)
        Directory.Delete(folder, recursive: true);
}

internal sealed record Order(long Id, decimal Amount);

internal sealed record Receipt(long Offset);

/// <summary>Is given each order at least once; the ledger makes that once.</summary>
internal sealed class OrderHandler(Ledger ledger) : IMessageHandler<Order>
{
    public ValueTask HandleAsync(Order order, ConsumeContext context, CancellationToken cancellationToken)
    {
        // A process that dies between this line and its commit gives the order to its successor again.
        ledger.Add(context.Offset, order);
        return default;
    }
}

/// <summary>
/// The effect of an order and its offset in one write, as in one transaction of a database. What is not above the last offset is
/// there already.
/// </summary>
internal sealed class Ledger : IDisposable
{
    private readonly FileStream _file;
    private long _offset = -1;
    private int _count;

    public Ledger(string path)
    {
        _file = new FileStream(path, FileMode.OpenOrCreate, FileAccess.ReadWrite, FileShare.Read, bufferSize: 0);
        string[] lines = new StreamReader(_file).ReadToEnd().Split('\n');
        // What is after the last line's end is half a write.
        _file.SetLength(_file.Length - Encoding.UTF8.GetByteCount(lines[^1]));
        _file.Seek(0, SeekOrigin.End);
        if (lines.Length > 1)
            _offset = long.Parse(lines[^2].Split(' ')[0], CultureInfo.InvariantCulture);
        _count = lines.Length - 1;
    }

    public int Count => Volatile.Read(ref _count);

    public void Add(long offset, Order order)
    {
        if (offset <= _offset)
            return;
        _file.Write(Encoding.UTF8.GetBytes(string.Create(CultureInfo.InvariantCulture, $"{offset} {order.Id} {order.Amount}\n")));
        _file.Flush(flushToDisk: true);   // the commit that follows may be on disk before the system would have written this
        _offset = offset;
        Interlocked.Increment(ref _count);
    }

    public void Dispose() => _file.Dispose();
}

[JsonSerializable(typeof(Order))]
[JsonSerializable(typeof(Receipt))]
[JsonSerializable(typeof(int))]
internal sealed partial class OrderJson : JsonSerializerContext;
