using System.Globalization;
using System.Text.Json.Serialization;

namespace MappedFileQueues.Tool.Produce;

/// <summary>What `mfq produce` has appended.</summary>
/// <param name="Messages">How many messages.</param>
/// <param name="Bytes">Their length, without headers.</param>
/// <param name="FirstOffset">Where the first one begins; null without messages.</param>
/// <param name="LastOffset">Where the last one begins; null without messages.</param>
/// <param name="Seconds">How long it took.</param>
/// <param name="IsInterrupted">Whether a signal came before all were appended.</param>
internal sealed record ProduceSummary(
    long Messages, long Bytes, long? FirstOffset, long? LastOffset, double Seconds, bool IsInterrupted)
{
    /// <summary>As a sentence.</summary>
    public override string ToString()
    {
        string what = Messages == 0
            ? IsInterrupted ? "Nothing was produced." : "Nothing to produce: the input is empty."
            : string.Create(
                CultureInfo.InvariantCulture,
                $"Produced {Messages} messages, {Bytes} bytes, offsets {FirstOffset} to {LastOffset}, in {Seconds:F3} s.");
        return IsInterrupted ? $"Interrupted. {what}" : what;
    }
}

/// <summary>The JSON of `mfq produce`.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
[JsonSerializable(typeof(ProduceSummary))]
internal sealed partial class ProduceJsonContext : JsonSerializerContext;
