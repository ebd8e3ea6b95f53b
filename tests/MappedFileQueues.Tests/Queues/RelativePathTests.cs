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
}
