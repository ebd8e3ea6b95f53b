using System.Globalization;
using System.Text.Json.Serialization;

namespace MappedFileQueues.Tool.Produce;

/// <summary>The result of `mfq produce`.</summary>
/// <param name="Messages">The number of messages.</param>
/// <param name="Bytes">Their length, without headers.</param>
/// <param name="FirstOffset">The offset of the first one; null without messages.</param>
/// <param name="LastOffset">The offset of the last one; null without messages.</param>
/// <param name="Seconds">The time it took.</param>
/// <param name="IsInterrupted">True if a signal came before all were appended.</param>
internal sealed record ProduceSummary(
    long Messages, long Bytes, long? FirstOffset, long? LastOffset, double Seconds, bool IsInterrupted)
{
    /// <summary>The summary as a sentence.</summary>
    public override string ToString()
    {
        string what = Messages == 0
            ? IsInterrupted ? "Nothing was produced." : "Nothing to produce: the input is empty."
            : string.Create(
                CultureInfo.InvariantCulture,
                $"Produced {Messages} message{(Messages == 1 ? "" : "s")}, {Bytes} bytes, "
                    + $"offsets {FirstOffset} to {LastOffset}, in {Seconds:F3} s.");
        return IsInterrupted ? $"Interrupted. {what}" : what;
    }
}

/// <summary>The JSON of `mfq produce`.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
[JsonSerializable(typeof(ProduceSummary))]
internal sealed partial class ProduceJsonContext : JsonSerializerContext;
