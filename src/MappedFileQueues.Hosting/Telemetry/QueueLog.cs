using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting.Telemetry;

/// <summary>
/// What queues and consumers tell the log, in the category <see cref="Category"/>. The numbers are stable, and docs/HOSTING.md
/// lists them.
/// </summary>
internal static partial class QueueLog
{
    public const string Category = "MappedFileQueues";

    [LoggerMessage(101, LogLevel.Information, "Queue {Queue} is open: path={Path}")]
    public static partial void QueueOpened(this ILogger logger, string queue, string path);

    [LoggerMessage(102, LogLevel.Warning, "Queue {Queue} was recovered after a power loss or a failed flush: path={Path}. "
        + "What lay beyond the last whole message is in the folder salvage.")]
    public static partial void RecoveredAfterPowerLoss(this ILogger logger, string queue, string path);

    [LoggerMessage(103, LogLevel.Warning, "Queue {Queue}: {Count} messages that dead producers had begun were given up")]
    public static partial void ClaimsRepaired(this ILogger logger, string queue, long count);

    [LoggerMessage(104, LogLevel.Critical, "Queue {Queue} is poisoned, because a flush failed: path={Path}, error={Error}. "
        + "Close it in all processes, then open it again.")]
    public static partial void Poisoned(this ILogger logger, string queue, string path, string? error);

    [LoggerMessage(105, LogLevel.Error, "Queue {Queue}: flushes fail since {Since:O} in process {ProcessId}: {Error}")]
    public static partial void FlushFailing(
        this ILogger logger, string queue, DateTimeOffset since, int? processId, string? error);

    [LoggerMessage(106, LogLevel.Information, "Queue {Queue}: flushes succeed again")]
    public static partial void FlushSucceeds(this ILogger logger, string queue);

    [LoggerMessage(107, LogLevel.Error, "Queue {Queue}, consumer \"{Consumer}\": stepped over damage in {File}: offset={Offset}, "
        + "next={NextOffset}, length={Length}")]
    public static partial void CorruptionSkipped(
        this ILogger logger, Exception error, string queue, string consumer, string file, long offset, long nextOffset,
        long length);

    [LoggerMessage(108, LogLevel.Warning, "Queue {Queue}, consumer \"{Consumer}\": messages were removed before it read them: "
        + "offset={Offset}, next={NextOffset}, length={Length}")]
    public static partial void MessagesSkipped(
        this ILogger logger, string queue, string consumer, long offset, long nextOffset, long length);

    [LoggerMessage(109, LogLevel.Information, "Queue {Queue}: removes segment {Path}: offset={Offset}, end={EndOffset}")]
    public static partial void SegmentRemoved(this ILogger logger, string queue, string path, long offset, long endOffset);

    [LoggerMessage(110, LogLevel.Warning, "Queue {Queue} waited long for the lock {LockFile}: longest={Longest}, waits={Count}")]
    public static partial void WaitedForLock(this ILogger logger, string queue, string? lockFile, TimeSpan longest, long count);

    [LoggerMessage(111, LogLevel.Critical, "The store of queue {Queue} was deleted or replaced: path={Path}")]
    public static partial void StoreDeleted(this ILogger logger, Exception error, string queue, string path);

    [LoggerMessage(112, LogLevel.Warning, "Queue {Queue}: a message that was begun and is not finished blocks all consumers: "
        + "slot={Slot}, process={ProcessId}, offset={Offset}, seen for {Age}")]
    public static partial void ClaimBlocks(
        this ILogger logger, string queue, int slot, int processId, long offset, TimeSpan age);

    [LoggerMessage(113, LogLevel.Warning, "Queue {Queue}, consumer \"{Consumer}\": was too far behind, and messages that it has "
        + "not read were removed: offset={Offset}, logStart={LogStart}")]
    public static partial void ConsumerDropped(
        this ILogger logger, string queue, string consumer, long offset, long logStart);

    [LoggerMessage(114, LogLevel.Warning, "Queue {Queue} cannot be looked at")]
    public static partial void LookFailed(this ILogger logger, Exception error, string queue);

    [LoggerMessage(115, LogLevel.Error, "Queue {Queue}: retention fails since {Since:O} in process {ProcessId}: {Error}")]
    public static partial void RetentionFailing(
        this ILogger logger, string queue, DateTimeOffset since, int? processId, string? error);

    [LoggerMessage(116, LogLevel.Information, "Queue {Queue}: retention succeeds again")]
    public static partial void RetentionSucceeds(this ILogger logger, string queue);

    [LoggerMessage(201, LogLevel.Information, "Queue {Queue}, consumer \"{Consumer}\": {Handler} begins at offset {Offset}")]
    public static partial void ConsumerStarted(this ILogger logger, string queue, string consumer, string handler, long offset);

    [LoggerMessage(202, LogLevel.Information, "Queue {Queue}, consumer \"{Consumer}\": {Handler} has ended, committed={Offset}")]
    public static partial void ConsumerStopped(this ILogger logger, string queue, string consumer, string handler, long offset);

    [LoggerMessage(203, LogLevel.Information, "Queue {Queue}, consumer \"{Consumer}\": another process consumes under this name; "
        + "waits until it ends")]
    public static partial void ConsumerStandsBy(this ILogger logger, string queue, string consumer);

    [LoggerMessage(204, LogLevel.Warning, "Queue {Queue}, consumer \"{Consumer}\": {Handler} failed: offset={Offset}, "
        + "attempt={Attempt} of {AttemptsMax}, error={ErrorType}")]
    public static partial void HandlerFailed(
        this ILogger logger, Exception? error, string queue, string consumer, string handler, long offset, int attempt,
        int attemptsMax, Type errorType);

    [LoggerMessage(205, LogLevel.Error, "Queue {Queue}, consumer \"{Consumer}\": a message went to the dead letters: "
        + "offset={Offset}, path={Path}, error={ErrorType}")]
    public static partial void DeadLettered(
        this ILogger logger, string queue, string consumer, long offset, string path, string errorType);

    [LoggerMessage(206, LogLevel.Critical, "Queue {Queue}, consumer \"{Consumer}\": {Handler} stops for good: offset={Offset}")]
    public static partial void ConsumerFailed(
        this ILogger logger, Exception error, string queue, string consumer, string handler, long? offset);

    [LoggerMessage(207, LogLevel.Warning, "Queue {Queue}, consumer \"{Consumer}\": {Handler} does not return: offset={Offset}, "
        + "since {Time}")]
    public static partial void HandlerHangs(
        this ILogger logger, string queue, string consumer, string handler, long offset, TimeSpan time);

    [LoggerMessage(208, LogLevel.Error, "Queue {Queue}, consumer \"{Consumer}\": a dead letter cannot be appended; the consumer "
        + "waits and tries again until it can: offset={Offset}, path={Path}")]
    public static partial void DeadLetterFailed(
        this ILogger logger, Exception error, string queue, string consumer, long offset, string path);

    [LoggerMessage(209, LogLevel.Error, "Queue {Queue}, consumer \"{Consumer}\": {Handler} is held up by an error of the system, "
        + "and is opened again until it can consume: committed={Offset}")]
    public static partial void ConsumerHeldUp(
        this ILogger logger, Exception error, string queue, string consumer, string handler, long? offset);

    [LoggerMessage(210, LogLevel.Warning, "Queue {Queue}, consumer \"{Consumer}\": {Handler} failed with an error that passes, "
        + "and is called again until it succeeds: offset={Offset}")]
    public static partial void HandlerWaits(
        this ILogger logger, Exception error, string queue, string consumer, string handler, long offset);

    [LoggerMessage(211, LogLevel.Error, "Queue {Queue}, consumer \"{Consumer}\": {Handler} refused {Count} messages in a row; "
        + "the consumer pauses after each further one, up to {PauseMax}, until one is handled")]
    public static partial void ConsumerPauses(
        this ILogger logger, string queue, string consumer, string handler, int count, TimeSpan pauseMax);

    [LoggerMessage(212, LogLevel.Information, "Queue {Queue}, consumer \"{Consumer}\": {Handler} continues")]
    public static partial void ConsumerContinues(this ILogger logger, string queue, string consumer, string handler);

    [LoggerMessage(213, LogLevel.Warning, "Queue {Queue}, consumer \"{Consumer}\": an operator has taken messages away from "
        + "{Handler}; other members of the group get them: offset={Offset}")]
    public static partial void MemberFenced(
        this ILogger logger, string queue, string consumer, string handler, long offset);
}
