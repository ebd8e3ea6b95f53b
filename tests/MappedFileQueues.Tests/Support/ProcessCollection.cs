namespace MappedFileQueues.Tests.Support;

/// <summary>
/// The tests that start and kill processes by the dozen. They run one after the other, so that few processes are alive at a time,
/// and beside the tests of other collections.
/// </summary>
[CollectionDefinition(Name)]
public sealed class ProcessCollection
{
    public const string Name = "processes";
}
