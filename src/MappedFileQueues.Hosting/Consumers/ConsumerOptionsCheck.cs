using MappedFileQueues.Hosting.Queues;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.Hosting.Consumers;

/// <summary>Checks the options of one consumer; each failure is a sentence that names the key.</summary>
internal sealed class ConsumerOptionsCheck(string queue, string consumer, IServiceProvider services)
    : IValidateOptions<HostedConsumerOptions>
{
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
        if (!Enum.IsDefined(options.OnFailure))
            failures.Add($"{path}:{nameof(options.OnFailure)} is not defined: {options.OnFailure}.");
        if (!Enum.IsDefined(options.OnOutOfRange))
            failures.Add($"{path}:{nameof(options.OnOutOfRange)} is not defined: {options.OnOutOfRange}.");
        return OptionsSection.ToResult(failures);
    }
}

/// <summary>The checks that the annotations say.</summary>
[OptionsValidator]
internal sealed partial class ConsumerOptionsValidator : IValidateOptions<HostedConsumerOptions>;
