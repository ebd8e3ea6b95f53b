using MappedFileQueues.Format;
using MappedFileQueues.Hosting.Queues;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.Hosting.Consumers;

/// <summary>Checks the options of one consumer; each failure is a sentence that names the key.</summary>
internal sealed class ConsumerOptionsCheck(string queue, string consumer, IServiceProvider services)
    : IValidateOptions<HostedConsumerOptions>
{
    /// <summary>A group counts no further than 63.</summary>
    private const int AttemptsLimit = 62;

    private readonly ConsumerOptionsValidator _generated = new();

    public ValidateOptionsResult Validate(string? name, HostedConsumerOptions options)
    {
        if (name != QueueNames.KeyOf(queue, consumer))
            return ValidateOptionsResult.Skip;
        string path = QueueNames.ConsumerPathOf(queue, consumer);
        List<string> failures =
        [
            .. OptionsSection.ReadConsumer(services, queue, consumer, new HostedConsumerOptions()),
            .. OptionsSection.Sentences(_generated.Validate(path, options), path),
        ];
        if (options.OnFailure is { } action && !Enum.IsDefined(action))
            failures.Add($"{path}:{nameof(options.OnFailure)} is not defined: {options.OnFailure}.");
        if (options.Corruption is { } policy && !Enum.IsDefined(policy))
            failures.Add($"{path}:{nameof(options.Corruption)} is not defined: {options.Corruption}.");
        if (options.IsTransient is null)
            failures.Add($"{path}:{nameof(options.IsTransient)} is null. Leave it as it is for the default.");
        if (options.DeadLetterPath is { } letters && string.IsNullOrWhiteSpace(letters))
            failures.Add($"{path}:{nameof(options.DeadLetterPath)} is empty. Leave it out for the default.");
        if (!Enum.IsDefined(options.OnOutOfRange))
            failures.Add($"{path}:{nameof(options.OnOutOfRange)} is not defined: {options.OnOutOfRange}.");
        failures.AddRange(FindContradictions(options).Select(sentence => $"{path}:{sentence}"));
        return OptionsSection.ToResult(failures);
    }

    /// <summary>What a group does not have, and what only a group has.</summary>
    private static IEnumerable<string> FindContradictions(HostedConsumerOptions options)
    {
        if (options.Group is not { } group)
        {
            if (options.Concurrency > 1)
                yield return $"{nameof(options.Concurrency)} is {options.Concurrency}, and a consumer handles one message after "
                    + $"the other. Set {nameof(options.Group)}, or leave it out.";
            yield break;
        }

        if (!QueueNames.IsValid(group))
            yield return $"{nameof(options.Group)} is not empty, and {StoreNames.NameRule}: '{group}'.";
        if (options.OnFailure is HandlerFailureAction.Stop or HandlerFailureAction.StopApplication)
            yield return $"{nameof(options.OnFailure)} is {options.OnFailure}, and a message that its group gives up goes to the "
                + $"dead letters. Leave it out, or set {nameof(HandlerFailureAction.DeadLetter)}.";
        if (options.AttemptsMax > AttemptsLimit)
            yield return $"{nameof(options.AttemptsMax)} must be from 1 to {AttemptsLimit} in a group: {options.AttemptsMax}.";
        if (options.BatchLengthMax > GroupOptions.UnacknowledgedLimit)
            yield return $"{nameof(options.BatchLengthMax)} must be from 1 to {GroupOptions.UnacknowledgedLimit} in a group: "
                + $"{options.BatchLengthMax}.";
    }
}

/// <summary>The checks that the annotations say.</summary>
[OptionsValidator]
internal sealed partial class ConsumerOptionsValidator : IValidateOptions<HostedConsumerOptions>;
