namespace MappedFileQueues.Demo;

/// <summary>How far a producer or a consumer has come.</summary>
/// <param name="Messages">The number of messages.</param>
/// <param name="Bytes">The number of bytes, each line with its \n.</param>
internal readonly record struct DemoProgress(long Messages, long Bytes)
{
    /// <summary>Adds one message.</summary>
    public DemoProgress Add(int lineLength) => new(Messages + 1, Bytes + lineLength + 1);
}
