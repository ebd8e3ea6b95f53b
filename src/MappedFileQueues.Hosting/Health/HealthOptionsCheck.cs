using MappedFileQueues.Hosting.Queues;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.Hosting.Health;

/// <summary>Checks the thresholds of one queue's health; each failure is a sentence that names the key.</summary>
/// <param name="queue">The queue's name.</param>
/// <param name="services">The application's services.</param>
/// <param name="isAtStart">Whether the queue must be one that was added at the start.</param>
internal sealed class HealthOptionsCheck(string queue, IServiceProvider services, bool isAtStart = true)
    : IValidateOptions<QueueHealthOptions>
{
    private readonly HealthOptionsValidator _generated = new();

    public ValidateOptionsResult Validate(string? name, QueueHealthOptions options)
    {
        if (name != queue)
            return ValidateOptionsResult.Skip;
        string path = QueueNames.HealthPathOf(queue);
        List<string> failures =
        [
            .. OptionsSection.ReadHealth(services, queue, new QueueHealthOptions()),
            .. OptionsSection.Sentences(_generated.Validate(path, options), path),
        ];
        if (isAtStart && services.GetServices<AddedQueue>().All(added => added.Name != queue))
            failures.Add($"A health check needs its queue: name=\"{queue}\". Add it with AddMappedFileQueue.");
        if (options.LagBytesMax < 0)
            failures.Add($"{path}:{nameof(options.LagBytesMax)} must be zero or more: {options.LagBytesMax}.");
        if (options.FreeBytesMin < 0)
            failures.Add($"{path}:{nameof(options.FreeBytesMin)} must be zero or more: {options.FreeBytesMin}.");
        if (options.LagTimeMax < TimeSpan.Zero)
            failures.Add($"{path}:{nameof(options.LagTimeMax)} must be zero or more: {options.LagTimeMax}.");
        return OptionsSection.ToResult(failures);
    }
}

/// <summary>The checks that the annotations say.</summary>
[OptionsValidator]
internal sealed partial class HealthOptionsValidator : IValidateOptions<QueueHealthOptions>;
