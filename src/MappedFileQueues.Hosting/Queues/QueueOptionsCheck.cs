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
    /// A section that nothing reads, and that was meant for a consumer of this application: one without a section has a name like
    /// it. Other sections are those of other programs, which may share the settings, and of consumers that a factory starts.
    /// </summary>
    private IEnumerable<string> FindUnknownConsumers(string path)
    {
        string[] added =
            [.. services.GetServices<AddedConsumer>().Where(one => one.Queue == queue).Select(one => one.Consumer)];
        string[] names = [.. added.Where(name => name.Length > 0)];
        if (names.Length == 0 || OptionsSection.Find(services, path) is not { } section)
            yield break;
        string known = string.Join(", ", names.Order(StringComparer.Ordinal));
        IConfigurationSection[] sections = [.. section.GetSection(QueueNames.ConsumersKey).GetChildren()];
        string[] lacking = [.. names.Except(sections.Select(child => child.Key), StringComparer.OrdinalIgnoreCase)];
        foreach (IConfigurationSection child in sections)
        {
            if (!names.Contains(child.Key, StringComparer.OrdinalIgnoreCase) && NearestName.Of(child.Key, lacking) is not null)
            {
                yield return $"{child.Path} is no consumer of this application."
                    + $"{NearestName.DidYouMean(child.Key, lacking)} Its consumers with a name are {known}.";
            }
        }

        if (lacking.Length > 0 && names.Length == added.Length && section.GetSection(QueueNames.ConsumerKey).GetChildren().Any())
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
