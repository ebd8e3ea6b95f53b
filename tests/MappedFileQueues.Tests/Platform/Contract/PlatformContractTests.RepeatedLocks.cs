using MappedFileQueues.Platform;

namespace MappedFileQueues.Tests.Platform.Contract;

/// <summary>A lock that one object takes again and again, as the leaders of flushes do.</summary>
public abstract partial class PlatformContractTests
{
    [Fact]
    public void RepeatedLock_TakenAgainAndAgain_ExcludesOthersEachTime()
    {
        using RepeatedLock repeated = Store.OpenRepeatedLock(LockName);
        for (int round = 0; round < 3; round++)
        {
            Assert.True(repeated.TryTake());
            Assert.Null(Store.TryLock(LockName, LockKind.Exclusive));
            repeated.Release();
            using PlatformLock? other = Store.TryLock(LockName, LockKind.Exclusive);
            Assert.NotNull(other);
            Assert.False(repeated.TryTake());
        }
    }

    /// <summary>A look at the name costs as much as the lock, so it is not taken each time; but it is taken.</summary>
    [Fact]
    public void RepeatedLock_FileIsReplaced_SoonTakesTheNewOne()
    {
        using RepeatedLock repeated = Store.OpenRepeatedLock(LockName);
        Assert.True(repeated.TryTake());
        repeated.Release();
        File.Delete(Temp.PathOf(LockName));
        using (PlatformLock? other = Store.TryLock(LockName, LockKind.Exclusive))
        {
            Assert.NotNull(other);
            Eventually.True(() => !TakesAndReleases(repeated), "the lock on the new file is respected");
        }

        Assert.True(repeated.TryTake());
        Assert.Null(Store.TryLock(LockName, LockKind.Exclusive));
    }

    private static bool TakesAndReleases(RepeatedLock repeated)
    {
        if (!repeated.TryTake())
            return false;
        repeated.Release();
        return true;
    }
}
