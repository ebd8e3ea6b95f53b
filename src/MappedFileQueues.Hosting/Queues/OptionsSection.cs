using System.Reflection;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.Hosting.Queues;

/// <summary>
/// What the options of queues, consumers and health checks share: their section, and sentences that name its keys.
/// </summary>
internal static class OptionsSection
{
    /// <summary>The section; null in an application without configuration.</summary>
    public static IConfigurationSection? Find(IServiceProvider services, string path) =>
        services.GetService<IConfiguration>()?.GetSection(path);

    /// <summary>Reads the options of a queue.</summary>
    public static void BindQueue(IServiceProvider services, string queue, HostedQueueOptions options)
    {
        if (Find(services, QueueNames.PathOf(queue)) is not { } section)
            return;
        section.Bind(options);
        options.Retention = ReadRetention(section) ?? options.Retention;
    }

    /// <summary>Reads the options of a consumer.</summary>
    public static void BindConsumer(IServiceProvider services, string queue, string consumer, HostedConsumerOptions options)
    {
        // The generated binder does not see a call behind `?.`.
        if (Find(services, QueueNames.ConsumerPathOf(queue, consumer)) is { } section)
            section.Bind(options);
    }

    /// <summary>A sentence for each key that no option has.</summary>
    /// <param name="section">The section; null for none.</param>
    /// <param name="properties">The options.</param>
    /// <param name="others">Keys that belong to others.</param>
    public static IEnumerable<string> FindUnknown(
        IConfiguration? section, PropertyInfo[] properties, params string[] others)
    {
        string[] known =
        [
            .. properties.Where(property => !IsSetByCode(property.PropertyType)).Select(property => property.Name),
            .. others,
        ];
        return from child in section?.GetChildren() ?? []
               where !known.Contains(child.Key, StringComparer.OrdinalIgnoreCase)
               select $"{child.Path} is no option. The options are {string.Join(", ", known.Order(StringComparer.Ordinal))}.";
    }

    /// <summary>
    /// A queue's policy of retention; null when the section has none. By hand: the generated binder leaves out properties that
    /// only an initializer may set, and would make a policy without limits of it.
    /// </summary>
    private static RetentionOptions? ReadRetention(IConfigurationSection queue)
    {
        IConfigurationSection section = queue.GetSection(nameof(MappedFileQueueOptions.Retention));
        if (!section.Exists())
            return null;
        var policy = new RetentionOptions();
        return policy with
        {
            MaxBytes = section.GetValue<long?>(nameof(policy.MaxBytes)),
            MaxAge = section.GetValue<TimeSpan?>(nameof(policy.MaxAge)),
            MinFreeBytes = section.GetValue<long?>(nameof(policy.MinFreeBytes)),
            KeepUnconsumed = section.GetValue(nameof(policy.KeepUnconsumed), policy.KeepUnconsumed),
            UnconsumedBytesMax = section.GetValue<long?>(nameof(policy.UnconsumedBytesMax)),
            Recycle = section.GetValue(nameof(policy.Recycle), policy.Recycle),
        };
    }

    /// <summary>The failures of a generated validator, which knows an option as `PATH.Option`, as sentences with keys.</summary>
    public static IEnumerable<string> Sentences(ValidateOptionsResult result, string path) =>
        (result.Failures ?? []).Select(failure => Sentence(failure, path));

    public static ValidateOptionsResult ToResult(IReadOnlyCollection<string> failures) =>
        failures.Count == 0 ? ValidateOptionsResult.Success : ValidateOptionsResult.Fail(failures);

    private static bool IsSetByCode(Type type) => type == typeof(TimeProvider) || typeof(Delegate).IsAssignableFrom(type);

    /// <summary>"PATH.Option: The field PATH.Option must …" becomes "PATH:Option must …".</summary>
    private static string Sentence(string failure, string path)
    {
        const string Field = "The field ";
        int field = failure.IndexOf(Field, StringComparison.Ordinal);
        string sentence = field < 0 ? failure : failure[(field + Field.Length)..];
        return sentence.Replace($"{path}.", $"{path}:", StringComparison.Ordinal);
    }
}
