using MappedFileQueues.Hosting;
using MappedFileQueues.Tests.Hosting;
using MappedFileQueues.Tests.Hosting.Consumers;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace MappedFileQueues.Tests.Queues;

/// <summary>A path that is relative means the folder in which the process worked when it named the path.</summary>
[Collection(AloneCollection.Name)]
public sealed class RelativePathTests : IDisposable
{
    private readonly string _before = Environment.CurrentDirectory;
    private readonly TempStore _temp = new();
    private readonly string _first;
    private readonly string _later;

    public RelativePathTests()
    {
        (_first, _later) = (_temp.PathOf("first"), _temp.PathOf("later"));
        Directory.CreateDirectory(_first);
        Directory.CreateDirectory(_later);
        Environment.CurrentDirectory = _first;
    }

    public void Dispose()
    {
        Environment.CurrentDirectory = _before;
        _temp.Dispose();
    }

    /// <summary>
    /// A service that changed its folder once its queue was open, as daemons do, had its dead letters in the other folder, where
    /// nobody looked for them.
    /// </summary>
    [Theory]
    [InlineData(null, true)]
    [InlineData(null, false)]
    [InlineData("letters", false)]
    public void DeadLetters_FolderOfTheProcessChanged_StayBesideTheQueue(string? letterPath, bool changesBeforeTheMember)
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = "jobs" });
        DeadLetterStore letters = new(new MappedFileQueueOptions { StorePath = letterPath ?? "jobs-dead-letters" });
        if (changesBeforeTheMember)
            Environment.CurrentDirectory = _later;
        using MappedFileGroupMember member =
            queue.OpenGroupMember("workers", new GroupOptions { DeadLetterPath = letterPath });
        Environment.CurrentDirectory = _later;
        queue.Producer.Produce([7]);
        Assert.Equal(new byte[] { 7 }, member.Consume().ToArray());
        member.Reject(member.MessageOffset, deadLetter: true);

        Assert.Equal([7], Assert.Single(letters.Read()).Message.ToArray());
        Assert.Equal(1, letters.Retry(queue));
        Assert.Empty(Directory.GetFileSystemEntries(_later));
    }

    /// <summary>
    /// A hosted consumer did the same: members of a group put their letters into the other folder, and health looked there for
    /// those of the others, found none, and called the queue well. A queue that is opened on first use was another one.
    /// </summary>
    [Theory]
    [InlineData(null, null, true)]
    [InlineData("letters", null, false)]
    [InlineData("letters", "workers", true)]
    [InlineData(null, "workers", false)]
    public async Task HostedDeadLetters_FolderOfTheProcessChanged_StayWhereHealthFindsThem(
        string? letterPath, string? group, bool opensAtStart)
    {
        Script script = new() { OnMessage = (_, _, _) => throw new InvalidOperationException("Never.") };
        await using TestHost host = new();
        host.Services.AddSingleton(script);
        host.Services.AddMappedFileQueue<long>(
            "jobs", options => (options.StorePath, options.OpenAtStart) = ("jobs", opensAtStart));
        host.Services.AddMappedFileConsumer<long, LongHandler>("jobs", options =>
        {
            (options.Group, options.DeadLetterPath, options.AttemptsMax) = (group, letterPath, 1);
            options.OnFailure = group is null ? HandlerFailureAction.DeadLetter : null;
        });
        host.Services.AddHealthChecks().AddMappedFileQueue("jobs");
        await host.StartAsync();
        Environment.CurrentDirectory = _later;
        host.Get<MappedFileQueue<long>>("jobs").Producer.Produce(1);
        host.Log.WaitFor(205);

        HealthReportEntry health = (await host.CheckHealthAsync()).Entries.Single().Value;
        Assert.Contains("Dead letters wait for somebody", health.Description, StringComparison.Ordinal);
        Assert.Contains(Path.Combine(_first, letterPath ?? "jobs-dead-letters"), health.Description, StringComparison.Ordinal);
        Assert.Empty(Directory.GetFileSystemEntries(_later));
    }
}
