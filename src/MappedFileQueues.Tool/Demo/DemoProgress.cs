namespace MappedFileQueues.Tool.Demo;

/// <summary>How far a producer or a consumer has come.</summary>
/// <param name="Messages">How many messages.</param>
/// <param name="Bytes">How many bytes, each line with its \n.</param>
internal readonly record struct DemoProgress(long Messages, long Bytes)
{
    /// <summary>One message further.</summary>
    public DemoProgress Add(int lineLength) => new(Messages + 1, Bytes + lineLength + 1);
}
