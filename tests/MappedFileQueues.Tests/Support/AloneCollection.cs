namespace MappedFileQueues.Tests.Support;

/// <summary>The tests that measure: nothing runs beside them.</summary>
[CollectionDefinition(Name, DisableParallelization = true)]
public sealed class AloneCollection
{
    public const string Name = "alone";
}
