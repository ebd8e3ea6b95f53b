using Microsoft.Extensions.Logging;

namespace MappedFileQueues.RabbitMQ.Diagnostics;

/// <summary>What bridges log. Addresses come without user and password.</summary>
internal static partial class BridgeLog
{
    [LoggerMessage(1, LogLevel.Information, "{Direction} of {Stream}: connecting to {Broker}")]
    public static partial void Connecting(ILogger logger, string direction, string stream, string broker);

    [LoggerMessage(2, LogLevel.Information, "{Direction} of {Stream}: {Reason} Waiting for it")]
    public static partial void Standby(ILogger logger, string direction, string stream, string reason);

    [LoggerMessage(3, LogLevel.Information, "{Direction} of {Stream}: running from offset {Offset} on, connected to {Broker}")]
    public static partial void Running(ILogger logger, string direction, string stream, long offset, string broker);

    [LoggerMessage(4, LogLevel.Warning, "{Direction} of {Stream}: {Error} Next attempt in {Pause} ms")]
    public static partial void BackingOff(ILogger logger, string direction, string stream, string error, long pause);

    [LoggerMessage(5, LogLevel.Error, "{Direction} of {Stream} stopped: {Error}")]
    public static partial void Failed(ILogger logger, string direction, string stream, string error);

    [LoggerMessage(6, LogLevel.Warning, "{Direction} of {Stream}: {Change} Going on, as the policy says")]
    public static partial void Changed(ILogger logger, string direction, string stream, string change);

    [LoggerMessage(7, LogLevel.Warning,
        "Forward of {Stream}: the record at offset {Offset} of {Length} bytes is in the dead letters")]
    public static partial void DeadLetter(ILogger logger, string stream, long offset, int length);

    [LoggerMessage(
        8, LogLevel.Warning, "{Direction} of {Stream}: the message at {Offset} is no envelope and is left out: {Error}")]
    public static partial void Foreign(ILogger logger, string direction, string stream, long offset, string error);

    [LoggerMessage(9, LogLevel.Warning, "{Direction} of {Stream}: {Reason} Waiting until it does again")]
    public static partial void Blocked(ILogger logger, string direction, string stream, string reason);

    [LoggerMessage(10, LogLevel.Information, "{Direction} of {Stream}: the broker takes messages again")]
    public static partial void Unblocked(ILogger logger, string direction, string stream);
}
