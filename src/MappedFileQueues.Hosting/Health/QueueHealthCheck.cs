using MappedFileQueues.Hosting.Consumers;
using MappedFileQueues.Hosting.Queues;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace MappedFileQueues.Hosting.Health;

/// <summary>Looks at one queue of the application, and says in sentences what is wrong with it.</summary>
internal sealed class QueueHealthCheck(NamedQueue queue, QueueHealthOptions options) : IHealthCheck
{
    public Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        var findings = new HealthFindings(context.Registration.FailureStatus);
        LookAtConsumers(findings);
        if (queue.Watch.Look(TimeSpan.Zero) is not { } look)
            return Task.FromResult(findings.ToResult($"Queue {queue.Name} was not opened yet."));
        if (look.Info is null)
        {
            findings.Unhealthy($"The store cannot be looked at: {look.Error!.Message}");
            return Task.FromResult(findings.ToResult("", look.Error));
        }

        LookAtStore(findings, look);
        LookAtLag(findings, look);
        LetterFindings.Look(findings, queue.DeadLetterPaths.Keys);
        return Task.FromResult(findings.ToResult($"Queue {queue.Name} is well."));
    }

    private void LookAtStore(HealthFindings findings, StoreLook look)
    {
        MappedFileQueueInfo info = look.Info!;
        findings.Data["storePath"] = info.StorePath;
        findings.Data["publishedOffset"] = info.PublishedOffset;
        findings.Data["confirmedOffset"] = info.ConfirmedOffset;
        findings.Data["bytesOnDisk"] = info.BytesOnDisk;
        if (info.IsPoisoned)
            findings.Unhealthy($"The store is poisoned, because a flush failed: {info.LastFlushError}. Close the queue in all "
                + $"processes ({string.Join(", ", info.AttachedProcesses)}), then open it again.");
        foreach (string problem in info.FileProblems)
            findings.Unhealthy(problem);
        if (info.FlushFailingSince is { } since)
            findings.Unhealthy($"Flushes fail since {since:O} in process {info.FlushFailingProcessId}: {info.LastFlushError}.");
        if (info.RetentionFailingSince is { } failing)
            findings.Degraded($"Retention fails since {failing:O} in process {info.RetentionFailingProcessId}: "
                + $"{info.LastRetentionError}");
        foreach (string problem in info.CursorProblems)
            findings.Degraded(problem);
        if (queue.Options.Durability != DurabilityLevel.PageCache && look.UnflushedAge > options.UnflushedTimeMax)
            findings.Unhealthy($"Messages have not been flushed for {look.UnflushedAge}: "
                + $"unflushed={info.TailOffset - info.ConfirmedOffset}.");
        if (look.FreeBytes is { } free)
        {
            findings.Data["freeBytes"] = free;
            if (free < options.FreeBytesMin)
                findings.Degraded($"The disk is nearly full: free={free}, least={options.FreeBytesMin}.");
        }

        for (int i = 0; i < info.OpenClaims.Count; i++)
        {
            MappedFileClaimInfo claim = info.OpenClaims[i];
            if (look.ClaimAges[i] > options.ClaimTimeMax)
                findings.Degraded($"A message that was begun and is not finished blocks all readers for {look.ClaimAges[i]}: "
                    + $"slot={claim.Slot}, process={claim.ProcessId}, offset={claim.Offset}.");
        }
    }

    private void LookAtLag(HealthFindings findings, StoreLook look)
    {
        foreach (LagLook lag in look.Lags)
        {
            findings.Data[$"lagBytes:{lag.Name}"] = lag.Bytes;
            findings.Data[$"lagSeconds:{lag.Name}"] = lag.Time.TotalSeconds;
            if (lag.Offset < look.Info!.LogStart)
                findings.Unhealthy($"Consumer \"{lag.Name}\" was too far behind, and messages that it has not read were "
                    + $"removed: offset={lag.Offset}, logStart={look.Info.LogStart}.");
            if (lag.Bytes > options.LagBytesMax)
                findings.Degraded($"Consumer \"{lag.Name}\" is behind: lag={lag.Bytes}, "
                    + $"{nameof(options.LagBytesMax)}={options.LagBytesMax}.");
            if (lag.Time > options.LagTimeMax)
                findings.Degraded($"Consumer \"{lag.Name}\" is behind: lag={lag.Time}, "
                    + $"{nameof(options.LagTimeMax)}={options.LagTimeMax}.");
        }
    }

    private void LookAtConsumers(HealthFindings findings)
    {
        foreach (ConsumerState consumer in queue.Consumers)
        {
            (ConsumerStatus status, Exception? error) = consumer.Condition;
            // Several consumers of the application may be members of one group.
            string key = $"consumer:{consumer.Key}";
            findings.Data[key] = findings.Data.TryGetValue(key, out object? others) ? $"{others}, {status}" : status.ToString();
            string who = $"Consumer \"{consumer.Name}\" ({consumer.HandlerName})";
            if (status == ConsumerStatus.Retries)
                findings.Degraded($"{who} fails and is called again: {ErrorText.Of(error!)}");
            else if (status == ConsumerStatus.Pauses)
                findings.Degraded($"{who} pauses: {ErrorText.Of(error!)}");
            else if (error is not null)
                findings.Unhealthy($"{who} {(status == ConsumerStatus.Failed ? "has stopped" : "is held up")}: "
                    + ErrorText.Of(error));
            if (consumer.LetterError is { } failure)
                findings.Degraded($"{who} cannot append a dead letter, and tries again until it can: {failure.Message}");
            if (consumer.TryFindHang(out TimeSpan time, out long offset))
                findings.Unhealthy($"Handler {consumer.HandlerName} of consumer \"{consumer.Name}\" has not returned for {time}: "
                    + $"offset={offset}.");
        }
    }
}
