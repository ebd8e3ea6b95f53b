namespace MappedFileQueues.Hosting.Health;

/// <summary>Dead letters that nobody has settled: messages that were not handled, and that nobody may know of.</summary>
internal static class LetterFindings
{
    /// <summary>The consumer of a store of letters that `mfq deadletters` moves.</summary>
    private const string Operator = "operator";

    /// <summary>Looks at the stores of letters that exist.</summary>
    public static void Look(HealthFindings findings, IEnumerable<string> paths)
    {
        foreach (string path in paths.Where(Directory.Exists))
        {
            try
            {
                MappedFileQueueInfo info = StoreInspector.Inspect(path);
                long settled = info.Consumers.FirstOrDefault(consumer => consumer.Name == Operator)?.Offset ?? 0;
                long bytes = info.PublishedOffset - Math.Max(settled, info.LogStart);
                findings.Data[$"deadLetterBytes:{path}"] = bytes;
                if (bytes > 0)
                    findings.Degraded($"Dead letters wait for somebody: bytes={bytes}, path={path}. `mfq deadletters list` shows "
                        + "them.");
            }
            catch (MappedFileQueueException error)
            {
                findings.Degraded($"The dead letters cannot be looked at: {error.Message}");
            }
        }
    }
}
