namespace MappedFileQueues.RabbitMQ;

/// <summary>What a bridge is doing.</summary>
public enum BridgeState
{
    /// <summary>It does not run.</summary>
    Stopped = 0,

    /// <summary>It connects, or finds out where to continue.</summary>
    Connecting = 1,

    /// <summary>Another forwarder of the same store has the lock, or another process the store's consumer or producer.</summary>
    Standby = 2,

    /// <summary>It moves messages.</summary>
    Running = 3,

    /// <summary>It failed, and waits before the next attempt.</summary>
    BackingOff = 4,

    /// <summary>It has ended with an error that needs a decision.</summary>
    Failed = 5,

    /// <summary>
    /// It is connected, and the broker takes no messages for now, because its memory or disk runs low. It continues when the
    /// broker does.
    /// </summary>
    Blocked = 6,
}

/// <summary>A look at a bridge.</summary>
/// <param name="State">What it is doing.</param>
/// <param name="Since">Since when.</param>
/// <param name="TroubleSince">
/// Since when it has neither run nor stood by; null while it does, and before the start. An attempt that fails as soon as it runs
/// ends no trouble.
/// </param>
/// <param name="Broker">The broker that it is connected to, without credentials.</param>
/// <param name="LastError">What the last attempt failed with, or why the broker took no messages after it.</param>
/// <param name="Messages">The messages that were moved and confirmed since the start.</param>
/// <param name="Bytes">Their bytes.</param>
/// <param name="Attempts">The connections that were tried.</param>
/// <param name="LagBytes">How many bytes of the store are not confirmed by the broker; 0 for a fetcher.</param>
public sealed record BridgeStatus(
    BridgeState State,
    DateTimeOffset Since,
    DateTimeOffset? TroubleSince,
    string? Broker,
    string? LastError,
    long Messages,
    long Bytes,
    long Attempts,
    long LagBytes);
