using System.Diagnostics.Metrics;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;
using MappedFileQueues.Hosting;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Bench.Hosting;

/// <summary>
/// An application with one queue of structs and its handler, as a user registers them. What is measured lies ready before the
/// handler begins with it: a message of its own holds the handler back until then.
/// </summary>
internal sealed class HostedQueue : IDisposable
{
    public const int BatchLength = 256;

    private const string Name = "figures";

    private readonly IHost _host;
    private readonly MappedFileQueue<Message64> _queue;
    private readonly GatedHandler _handler;
    private readonly string _path;
    private Message64 _message = Message64.Create();

    public HostedQueue(string path, long countMax, bool isBatch, TimeProvider? clock = null)
    {
        _path = path;
        HostApplicationBuilder builder = Host.CreateEmptyApplicationBuilder(null);
        builder.Logging.ClearProviders();
        builder.Services.AddSingleton<GatedHandler>();
        builder.Services.AddMappedFileQueue<Message64>(Name, options =>
        {
            options.StorePath = path;
            options.SegmentSize = BenchStore.SegmentLengthFor(countMax);
            options.Durability = DurabilityLevel.PageCache;
            options.TimeProvider = clock ?? TimeProvider.System;
        });
        if (isBatch)
            builder.Services.AddMappedFileBatchConsumer<Message64, GatedHandler>(
                Name, o => (o.BatchLengthMax, o.ScopePerCall) = (BatchLength, false));
        else
            builder.Services.AddMappedFileConsumer<Message64, GatedHandler>(Name, o => o.ScopePerCall = false);
        builder.Services.AddHealthChecks().AddMappedFileQueue(Name);
        _host = builder.Build();
        _host.Start();
        _handler = _host.Services.GetRequiredService<GatedHandler>();
        _queue = _host.Services.GetRequiredKeyedService<MappedFileQueue<Message64>>(Name);
        _queue.Producer.Prepare(RawFile.LengthFor(countMax));
    }

    /// <summary>The queue itself.</summary>
    public MappedFileQueue<Message64> Queue => _queue;

    /// <summary>What the handler's consumer has not committed, in bytes.</summary>
    public long Lag => _queue.GetInfo().Consumers.Single(consumer => consumer.Name.Length == 0).Lag;

    public HealthCheckService Health => _host.Services.GetRequiredService<HealthCheckService>();

    /// <summary>Whose meters are this application's.</summary>
    public IMeterFactory Meters => _host.Services.GetRequiredService<IMeterFactory>();

    /// <summary>Appends that many messages, then lets the handler have them; the ticks that each of the two took.</summary>
    public (long Append, long Handle) Run(int count)
    {
        _handler.Close();
        _queue.Producer.Produce(ref _message);
        _handler.Entered.Wait();
        long start = Clock.Now;
        for (int i = 0; i < count; i++)
        {
            _message.Number = (ulong)i;
            _queue.Producer.Produce(ref _message);
        }

        long append = Clock.Now - start;
        _handler.Open(count);
        (ulong sum, long handle) = _handler.Ended.Result;
        Sums.Check("hosted handler", sum, Message64.ExpectedSum(count));
        return (append, handle);
    }

    public void Dispose()
    {
        _host.StopAsync().GetAwaiter().GetResult();
        Sums.Check("what the handler's consumer left", (ulong)Lag, 0);
        _host.Dispose();
        BenchStore.Delete(_path);
    }
}
