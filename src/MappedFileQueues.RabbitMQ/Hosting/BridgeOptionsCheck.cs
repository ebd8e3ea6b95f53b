using Microsoft.Extensions.Options;

namespace MappedFileQueues.RabbitMQ.Hosting;

/// <summary>Checks the options of one bridge when the application starts; the failure names the bridge and the key.</summary>
internal sealed record BridgeOptionsCheck<T>(string Bridge) : IValidateOptions<T>
    where T : BridgeOptions
{
    public ValidateOptionsResult Validate(string? name, T options)
    {
        if (name != Bridge)
            return ValidateOptionsResult.Skip;
        try
        {
            options.Check();
            return ValidateOptionsResult.Success;
        }
        catch (ArgumentException error)
        {
            return ValidateOptionsResult.Fail($"The bridge {Bridge}: {error.Message}");
        }
    }
}
