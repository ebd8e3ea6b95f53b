namespace MappedFileQueues.Hosting.Consumers.Groups;

/// <summary>The members of one group that an application adds together. They begin and end together.</summary>
internal sealed class GroupService(IReadOnlyList<IConsumerService> members) : IConsumerService
{
    public bool HasEnded => members.All(member => member.HasEnded);

    public async Task StartAsync(CancellationToken cancellationToken)
    {
        foreach (IConsumerService member in members)
            await member.StartAsync(cancellationToken).ConfigureAwait(false);
    }

    public Task StopAsync(CancellationToken cancellationToken) =>
        Task.WhenAll(members.Select(member => member.StopAsync(cancellationToken)));

    public void Dispose()
    {
        foreach (IConsumerService member in members)
            member.Dispose();
    }
}
