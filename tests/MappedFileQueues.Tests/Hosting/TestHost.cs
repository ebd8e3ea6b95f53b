using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Tests.Hosting;

/// <summary>A real application for one test: a host, its configuration, its log, a folder for its stores.</summary>
internal sealed class TestHost : IAsyncDisposable
{
    private readonly TempStore _folder = new();
    private readonly HostApplicationBuilder _builder = Host.CreateEmptyApplicationBuilder(null);
    private IHost? _host;
    private bool _isStarted;

    public TestHost()
    {
        _builder.Logging.AddProvider(Log);
        _builder.Services.Configure<HostOptions>(options => options.ShutdownTimeout = TimeSpan.FromMinutes(1));
    }

    public CollectedLog Log { get; } = new();

    public string StorePath => _folder.StorePath;

    public IServiceCollection Services => _builder.Services;

    public IServiceProvider Provider => Built.Services;

    private IHost Built => _host ??= _builder.Build();

    public TestHost Configure(params IEnumerable<(string Key, string Value)> settings)
    {
        _builder.Configuration.AddInMemoryCollection(
            settings.Select(setting => KeyValuePair.Create(setting.Key, (string?)setting.Value)));
        return this;
    }

    public T Get<T>(string name)
        where T : notnull => Provider.GetRequiredKeyedService<T>(name);

    public async Task StartAsync()
    {
        await Built.StartAsync(TestContext.Current.CancellationToken);
        _isStarted = true;
    }

    public Task StopAsync(CancellationToken cancellationToken = default) => Built.StopAsync(cancellationToken);

    public Task<HealthReport> CheckHealthAsync() => Provider.GetRequiredService<HealthCheckService>()
        .CheckHealthAsync(TestContext.Current.CancellationToken);

    public async ValueTask DisposeAsync()
    {
        if (_host is not null)
        {
            if (_isStarted)
                await _host.StopAsync(CancellationToken.None);
            await ((IAsyncDisposable)_host).DisposeAsync();
        }

        _folder.Dispose();
    }
}
