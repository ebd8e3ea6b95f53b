using MappedFileQueues.Hosting.Settings;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.Hosting.Queues;

/// <summary>
/// What the options of queues, consumers and health checks share: their section, and sentences that name its keys. Reading gives
/// the sentences of what cannot be used; the checks read once more, into new options, and tell them.
/// </summary>
internal static class OptionsSection
{
    /// <summary>The section; null in an application without configuration.</summary>
    public static IConfigurationSection? Find(IServiceProvider services, string path) =>
        services.GetService<IConfiguration>()?.GetSection(path);

    /// <summary>Reads the options of a queue.</summary>
    /// <returns>A sentence for each key that is wrong.</returns>
    public static IEnumerable<string> ReadQueue(IServiceProvider services, string queue, HostedQueueOptions options)
    {
        string path = QueueNames.PathOf(queue);
        IConfigurationSection? section = Find(services, path);
        IReadOnlyList<string> failures = SectionReader.Read(
            section, path, options,
            nameof(options.Retention), QueueNames.HealthKey, QueueNames.ConsumerKey, QueueNames.ConsumersKey);
        if (section?.GetSection(nameof(options.Retention)) is not { } retention || !retention.GetChildren().Any())
            return failures;
        options.Retention = new RetentionOptions();
        return failures.Concat(SectionReader.Read(retention, retention.Path, options.Retention));
    }

    /// <summary>Reads the options of a consumer.</summary>
    /// <inheritdoc cref="ReadQueue"/>
    public static IEnumerable<string> ReadConsumer(
        IServiceProvider services, string queue, string consumer, HostedConsumerOptions options)
    {
        string path = QueueNames.ConsumerPathOf(queue, consumer);
        return SectionReader.Read(Find(services, path), path, options);
    }

    /// <summary>Reads the thresholds of a queue's health.</summary>
    /// <inheritdoc cref="ReadQueue"/>
    public static IEnumerable<string> ReadHealth(IServiceProvider services, string queue, QueueHealthOptions options)
    {
        string path = QueueNames.HealthPathOf(queue);
        return SectionReader.Read(Find(services, path), path, options);
    }

    /// <summary>The failures of a generated validator, which knows an option as `PATH.Option`, as sentences with keys.</summary>
    public static IEnumerable<string> Sentences(ValidateOptionsResult result, string path) =>
        (result.Failures ?? []).Select(failure => Sentence(failure, path));

    public static ValidateOptionsResult ToResult(IReadOnlyCollection<string> failures) =>
        failures.Count == 0 ? ValidateOptionsResult.Success : ValidateOptionsResult.Fail(failures);

    /// <summary>"PATH.Option: The field PATH.Option must …" becomes "PATH:Option must …".</summary>
    private static string Sentence(string failure, string path)
    {
        const string Field = "The field ";
        int field = failure.IndexOf(Field, StringComparison.Ordinal);
        string sentence = field < 0 ? failure : failure[(field + Field.Length)..];
        return sentence.Replace($"{path}.", $"{path}:", StringComparison.Ordinal);
    }
}
