namespace MappedFileQueues.Tests.Crash;

/// <summary>
/// The tests that start and kill processes by the dozen run one after the other, and not beside others: some of them measure.
/// </summary>
[CollectionDefinition(Name, DisableParallelization = true)]
public sealed class CrashCollection
{
    public const string Name = "crash";
}
