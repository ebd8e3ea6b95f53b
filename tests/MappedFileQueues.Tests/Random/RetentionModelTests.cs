using FsCheck;
using FsCheck.Fluent;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Randomized;

/// <summary>
/// Random steps of a producer, three consumers and retention against a list: policies, trims, consumers that are dropped, moved
/// and deleted, snapshots, queues that are opened anew.
/// </summary>
[Trait("Category", "Slow")]
public sealed class RetentionModelTests
{
    private const int RunsMax = 12;

    [Theory]
    [InlineData(ProducerMode.Shared, false)]
    [InlineData(ProducerMode.Exclusive, false)]
    [InlineData(ProducerMode.Shared, true)]
    [InlineData(ProducerMode.Exclusive, true)]
    public void AnySteps_UnderRetention_AsTheModel(ProducerMode mode, bool portable)
    {
        Gen<int> number = Gen.Frequency((4, Gen.Choose(0, 300)), (3, Gen.Choose(300, 1500)), (1, Gen.Elements(0, 1, 4000, 4080)));
        Gen<RetentionStep> step =
            from operation in RandomSteps.Weighted<RetentionOperation>(Weight)
            from name in Gen.Elements("", "billing", "audit")
            from value in number
            select new RetentionStep(operation, name, value);
        int before = RetentionRun.RemovalCount;
        RandomSteps.Check(step, RunsMax, taken =>
        {
            PlatformScope.Use(portable);
            using var run = new RetentionRun(mode);
            foreach (RetentionStep one in taken)
                run.Take(one);
        });

        bool isReplay = Environment.GetEnvironmentVariable("MFQ_REPLAY") is { Length: > 0 };
        Assert.True(isReplay || RetentionRun.RemovalCount > before, "No step has removed anything.");
    }

    private static int Weight(RetentionOperation operation) => operation switch
    {
        RetentionOperation.Produce => 14,
        RetentionOperation.Batch or RetentionOperation.Consume => 8,
        RetentionOperation.Commit or RetentionOperation.OpenConsumer => 5,
        RetentionOperation.Advance or RetentionOperation.SetRetention => 4,
        RetentionOperation.Reopen or RetentionOperation.Snapshot or RetentionOperation.ReadAll => 1,
        _ => 2,
    };
}
