using MappedFileQueues.Hosting.Consumers;
using MappedFileQueues.Hosting.Telemetry;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting.Queues;

/// <summary>
/// Looks at one store: at intervals, for health checks and for metrics. Tells the log what has changed since the last look,
/// whichever process did it. Any thread.
/// </summary>
internal sealed class StoreWatch(NamedQueue queue)
{
    private readonly Lock _lock = new();
    private readonly OffsetHistory _published = new(queue.Clock);
    private readonly Dictionary<(long Offset, int Slot), long> _claims = [];
    private readonly HashSet<(long Offset, int Slot)> _toldClaims = [];
    private readonly HashSet<string> _dropped = new(StringComparer.OrdinalIgnoreCase);
    private StoreLook? _last;

    private ILogger Logger => queue.Logger;

    private TimeProvider Clock => queue.Clock;

    /// <summary>A look; null until the queue is open.</summary>
    /// <param name="ageMax">One that is no older will do; zero: a new one.</param>
    public StoreLook? Look(TimeSpan ageMax)
    {
        if (queue.GetInfo is null)
            return null;
        lock (_lock)
        {
            if (ageMax > TimeSpan.Zero && _last is { } recent && Clock.GetElapsedTime(recent.Timestamp) <= ageMax)
                return recent;
            StoreLook look = Take();
            Tell(_last, look);
            return _last = look;
        }
    }

    private StoreLook Take()
    {
        long now = Clock.GetTimestamp();
        try
        {
            MappedFileQueueInfo info = queue.GetInfo!();
            _published.Note(info.PublishedOffset, now);
            return new StoreLook
            {
                Timestamp = now,
                Info = info,
                Statistics = queue.GetStatistics!(),
                FreeBytes = FindFreeBytes(info.StorePath),
                UnflushedAge = _published.AgeOf(info.ConfirmedOffset, now),
                Lags =
                [
                    .. info.Consumers.Select(consumer => LookAtLag(
                        consumer.Name, consumer.Offset, consumer.Lag, consumer.LagTime, now)),
                    .. info.Groups.Select(group => LookAtLag(
                        QueueNames.NameOfGroup(group.Name), group.FloorOffset, group.Lag, group.LagTime, now)),
                ],
                ClaimAges = AgeClaims(info.OpenClaims, now),
            };
        }
        catch (Exception error)
        {
            // Also one that no queue throws: without a descriptor, the runtime cannot load what it has not used yet.
            return new StoreLook { Timestamp = now, Error = error };
        }
    }

    private List<TimeSpan> AgeClaims(IReadOnlyList<MappedFileClaimInfo> claims, long now)
    {
        HashSet<(long, int)> open = [.. claims.Select(claim => (claim.Offset, claim.Slot))];
        foreach ((long, int) gone in _claims.Keys.Where(claim => !open.Contains(claim)).ToArray())
        {
            _claims.Remove(gone);
            _toldClaims.Remove(gone);
        }

        List<TimeSpan> ages = [];
        foreach (MappedFileClaimInfo claim in claims)
        {
            _claims.TryAdd((claim.Offset, claim.Slot), now);
            ages.Add(Clock.GetElapsedTime(_claims[(claim.Offset, claim.Slot)], now));
        }

        return ages;
    }

    /// <summary>What flushes have noted outlives this process, and what it has seen itself is there without a flush.</summary>
    private LagLook LookAtLag(string name, long offset, long bytes, TimeSpan? noted, long now)
    {
        TimeSpan seen = _published.AgeOf(offset, now);
        return new LagLook(name, offset, bytes, noted > seen ? noted.Value : seen);
    }

    private static long? FindFreeBytes(string path)
    {
        try
        {
            return new DriveInfo(path).AvailableFreeSpace;
        }
        catch (Exception error) when (error is IOException or ArgumentException or UnauthorizedAccessException)
        {
            return null;
        }
    }

    private void Tell(StoreLook? before, StoreLook now)
    {
        if (now.Info is not { } info)
        {
            TellError(before?.Error, now.Error!);
            return;
        }

        MappedFileQueueInfo? last = before?.Info;
        // What was repaired before this process came is known to those that were there.
        if (info.RepairCount > (last?.RepairCount ?? info.RepairCount))
            Logger.ClaimsRepaired(queue.Name, info.RepairCount - last!.RepairCount);
        if (info.IsPoisoned && last is not { IsPoisoned: true })
            Logger.Poisoned(queue.Name, info.StorePath, info.LastFlushError);
        if (info.FlushFailingSince is { } since && last?.FlushFailingSince is null)
            Logger.FlushFailing(queue.Name, since, info.FlushFailingProcessId, info.LastFlushError);
        if (info.FlushFailingSince is null && last?.FlushFailingSince is not null)
            Logger.FlushSucceeds(queue.Name);
        if (info.RetentionFailingSince is { } failing && last?.RetentionFailingSince is null)
            Logger.RetentionFailing(queue.Name, failing, info.RetentionFailingProcessId, info.LastRetentionError);
        if (info.RetentionFailingSince is null && last?.RetentionFailingSince is not null)
            Logger.RetentionSucceeds(queue.Name);
        long waits = now.Statistics!.LongLockWaitCount;
        if (waits > (before?.Statistics?.LongLockWaitCount ?? 0))
            Logger.WaitedForLock(queue.Name, now.Statistics.LastLongLockWait, now.Statistics.LongLockWaitMax, waits);
        TellClaims(now);
        TellDropped(info, now.Lags);
        TellHandlers();
    }

    private void TellError(Exception? before, Exception error)
    {
        if (before?.GetType() == error.GetType() || error is ObjectDisposedException)
            return;
        if (error is QueueDeletedException)
            Logger.StoreDeleted(error, queue.Name, queue.Options.StorePath);
        else
            Logger.LookFailed(error, queue.Name);
    }

    private void TellClaims(StoreLook now)
    {
        for (int i = 0; i < now.ClaimAges.Count; i++)
        {
            MappedFileClaimInfo claim = now.Info!.OpenClaims[i];
            if (now.ClaimAges[i] >= queue.Options.WatchInterval && _toldClaims.Add((claim.Offset, claim.Slot)))
                Logger.ClaimBlocks(queue.Name, claim.Slot, claim.ProcessId, claim.Offset, now.ClaimAges[i]);
        }
    }

    private void TellDropped(MappedFileQueueInfo info, IReadOnlyList<LagLook> lags)
    {
        foreach (LagLook consumer in lags)
        {
            if (consumer.Offset >= info.LogStart)
                _dropped.Remove(consumer.Name);
            else if (_dropped.Add(consumer.Name))
                Logger.ConsumerDropped(queue.Name, consumer.Name, consumer.Offset, info.LogStart);
        }
    }

    private void TellHandlers()
    {
        foreach (ConsumerState consumer in queue.Consumers)
        {
            if (consumer.TryFindHang(out TimeSpan time, out long offset) && consumer.TellsHangOnce(offset))
                Logger.HandlerHangs(queue.Name, consumer.Name, consumer.HandlerName, offset, time);
        }
    }
}
