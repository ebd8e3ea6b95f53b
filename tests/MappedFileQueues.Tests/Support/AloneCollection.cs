namespace MappedFileQueues.Tests.Support;

/// <summary>The tests that measure, or that take all of a process's files: nothing runs beside them.</summary>
[CollectionDefinition(Name, DisableParallelization = true)]
public sealed class AloneCollection
{
    public const string Name = "alone";
}
