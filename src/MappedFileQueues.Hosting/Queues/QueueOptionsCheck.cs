using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.Hosting.Queues;

/// <summary>Checks the options of one queue; each failure is a sentence that names the key.</summary>
internal sealed class QueueOptionsCheck(string queue, IServiceProvider services) : IValidateOptions<HostedQueueOptions>
{
    private readonly QueueOptionsValidator _generated = new();

    public ValidateOptionsResult Validate(string? name, HostedQueueOptions options)
    {
        if (name != queue)
            return ValidateOptionsResult.Skip;
        string path = QueueNames.PathOf(queue);
        IConfigurationSection? section = OptionsSection.Find(services, path);
        List<string> failures =
        [
            .. OptionsSection.FindUnknown(section, typeof(HostedQueueOptions).GetProperties(),
                QueueNames.HealthKey, QueueNames.ConsumerKey, QueueNames.ConsumersKey),
            .. OptionsSection.FindUnknown(
                section?.GetSection(nameof(options.Retention)), typeof(RetentionOptions).GetProperties()),
            .. OptionsSection.Sentences(_generated.Validate(path, options), path),
        ];
        try
        {
            options.Validate();
        }
        catch (ArgumentException) when (string.IsNullOrWhiteSpace(options.StorePath))
        {
            failures.Add($"{path}:StorePath is missing: it is the store's directory.");
        }
        catch (ArgumentException error) when (typeof(RetentionOptions).GetProperty(error.ParamName ?? "") is not null)
        {
            failures.Add($"{path}:{nameof(options.Retention)}:{error.Message}");
        }
        catch (ArgumentException error)
        {
            failures.Add($"{path}:{error.Message}");
        }

        return OptionsSection.ToResult(failures);
    }
}

/// <summary>The checks that the annotations say.</summary>
[OptionsValidator]
internal sealed partial class QueueOptionsValidator : IValidateOptions<HostedQueueOptions>;
