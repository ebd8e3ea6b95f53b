using MappedFileQueues.Hosting.Queues;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.Hosting.Health;

/// <summary>Checks the thresholds of one queue's health; each failure is a sentence that names the key.</summary>
internal sealed class HealthOptionsCheck(string queue, IServiceProvider services) : IValidateOptions<QueueHealthOptions>
{
    private readonly HealthOptionsValidator _generated = new();

    public ValidateOptionsResult Validate(string? name, QueueHealthOptions options)
    {
        if (name != queue)
            return ValidateOptionsResult.Skip;
        string path = QueueNames.HealthPathOf(queue);
        List<string> failures =
        [
            .. OptionsSection.FindUnknown(OptionsSection.Find(services, path), typeof(QueueHealthOptions).GetProperties()),
            .. OptionsSection.Sentences(_generated.Validate(path, options), path),
        ];
        if (options.LagTimeMax < TimeSpan.Zero)
            failures.Add($"{path}:{nameof(options.LagTimeMax)} must be zero or more: {options.LagTimeMax}.");
        return OptionsSection.ToResult(failures);
    }
}

/// <summary>The checks that the annotations say.</summary>
[OptionsValidator]
internal sealed partial class HealthOptionsValidator : IValidateOptions<QueueHealthOptions>;
