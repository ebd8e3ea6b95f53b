using MappedFileQueues.Hosting.Settings;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
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
        List<string> failures =
        [
            .. OptionsSection.ReadQueue(services, queue, new HostedQueueOptions()),
            .. FindUnknownConsumers(path),
            .. OptionsSection.Sentences(_generated.Validate(path, options), path),
        ];
        try
        {
            options.Validate();
        }
        catch (ArgumentException) when (string.IsNullOrWhiteSpace(options.StorePath))
        {
            failures.Add($"{path}:StorePath is missing: it is the store's directory.{OtherSection()}");
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

    /// <summary>
    /// A section of a consumer that the application does not add would be ignored. Not where it adds none at all: a program that
    /// only produces may have the settings of those that consume, and consumers that a factory starts are not known yet.
    /// </summary>
    private IEnumerable<string> FindUnknownConsumers(string path)
    {
        string[] added =
            [.. services.GetServices<AddedConsumer>().Where(one => one.Queue == queue).Select(one => one.Consumer)];
        if (added.Length == 0 || OptionsSection.Find(services, path) is not { } section)
            yield break;
        string[] names = [.. added.Where(name => name.Length > 0)];
        string known = names.Length == 0 ? "none" : string.Join(", ", names.Order(StringComparer.Ordinal));
        foreach (IConfigurationSection child in section.GetSection(QueueNames.ConsumersKey).GetChildren())
        {
            if (!names.Contains(child.Key, StringComparer.OrdinalIgnoreCase))
            {
                yield return $"{child.Path} is no consumer of this application."
                    + $"{SectionReader.DidYouMean(child.Key, names)} Its consumers with a name are {known}.";
            }
        }

        if (names.Length == added.Length && section.GetSection(QueueNames.ConsumerKey).GetChildren().Any())
        {
            yield return $"{path}:{QueueNames.ConsumerKey} is the default consumer, which this application does not add. Those "
                + $"with a name, {known}, have their options below {path}:{QueueNames.ConsumersKey}.";
        }
    }

    /// <summary>A queue without its section: another one may have its options.</summary>
    private string OtherSection()
    {
        IEnumerable<string> others = OptionsSection.Find(services, QueueNames.Section)?.GetChildren()
            .Select(section => section.Key)
            .Except(services.GetServices<AddedQueue>().Select(added => added.Name), StringComparer.OrdinalIgnoreCase) ?? [];
        return NearestName.Of(queue, others) is { } nearest ? $" There is a section {QueueNames.PathOf(nearest)}." : "";
    }
}

/// <summary>The checks that the annotations say.</summary>
[OptionsValidator]
internal sealed partial class QueueOptionsValidator : IValidateOptions<HostedQueueOptions>;
