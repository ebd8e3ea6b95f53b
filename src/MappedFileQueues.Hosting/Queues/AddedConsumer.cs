namespace MappedFileQueues.Hosting.Queues;

/// <summary>A consumer that was added to the application; a second one of its name would wait for ever.</summary>
/// <param name="Queue">The queue's name.</param>
/// <param name="Consumer">The consumer's name; "" for the default consumer.</param>
internal sealed record AddedConsumer(string Queue, string Consumer)
{
    /// <summary>A store does not tell the case of a consumer's name.</summary>
    public bool IsSame(AddedConsumer other) =>
        Queue == other.Queue && Consumer.Equals(other.Consumer, StringComparison.OrdinalIgnoreCase);
}
