using MappedFileQueues.Platform;

namespace MappedFileQueues.Tests.Platform;

public sealed class RootedObjectsTests
{
    /// <summary>
    /// All stores of a process meet at its lock. A Dispose that was interrupted while it waited there ended, and nobody could
    /// open the file again.
    /// </summary>
    [Fact]
    public void AddAndRemove_ThreadsAreInterrupted_AlwaysHappen()
    {
        RootedObjects objects = new();
        InterruptedThreads.Run((_, _) =>
        {
            Assert.Null(Record.Exception(() =>
            {
                for (int number = 0; number < 20_000; number++)
                {
                    object used = new();
                    objects.Add(used);
                    Assert.True(objects.TryRemove(used));
                }
            }));
            // The interrupt comes here.
            Thread.Sleep(1);
        });
    }
}
