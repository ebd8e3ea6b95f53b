namespace MappedFileQueues.Tool.Check;

/// <summary>What a store is held against. Null: no limit.</summary>
/// <param name="Consumers">The consumers that must exist, and that count; empty for all that there are.</param>
/// <param name="LagWarning">Bytes behind that are a warning.</param>
/// <param name="LagMax">Bytes behind that are critical.</param>
/// <param name="AgeWarning">Time unread that is a warning.</param>
/// <param name="AgeMax">Time unread that is critical.</param>
/// <param name="UnflushedMax">Appended bytes not on disk that are critical.</param>
/// <param name="FreeMin">Free bytes of the disk below which it is critical.</param>
/// <param name="LettersMax">Dead letters that nobody has settled that are critical.</param>
/// <param name="ClaimMax">How long a claim may stand in the way.</param>
internal sealed record CheckLimits(
    IReadOnlyList<string> Consumers,
    long? LagWarning,
    long? LagMax,
    TimeSpan? AgeWarning,
    TimeSpan? AgeMax,
    long? UnflushedMax,
    long? FreeMin,
    long? LettersMax,
    TimeSpan ClaimMax);
