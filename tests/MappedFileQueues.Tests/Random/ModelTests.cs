using FsCheck;
using FsCheck.Fluent;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Randomized;

/// <summary>Random steps on tiny segments against a list.</summary>
[Trait("Category", "Slow")]
public sealed class ModelTests
{
    private const int RunsMax = 40;

    [Theory]
    [InlineData(ProducerMode.Shared, false)]
    [InlineData(ProducerMode.Exclusive, false)]
    [InlineData(ProducerMode.Shared, true)]
    [InlineData(ProducerMode.Exclusive, true)]
    public void AnySteps_OnTinySegments_AsTheModel(ProducerMode mode, bool portable)
    {
        Gen<int> number = Gen.Frequency(
            (6, Gen.Choose(0, 120)), (2, Gen.Choose(0, 1500)), (1, Gen.Elements(0, 1, 7, 8, 4000, 4020)));
        Gen<Step> step =
            from operation in RandomSteps.Weighted<Operation>(Weight)
            from value in number
            select new Step(operation, value);
        RandomSteps.Check(step, RunsMax, taken =>
        {
            PlatformScope.Use(portable);
            using var run = new ModelRun(mode);
            foreach (Step one in taken)
                run.Take(one);
        });
    }

    private static int Weight(Operation operation) => operation switch
    {
        Operation.Produce => 12,
        Operation.Consume or Operation.Commit or Operation.Advance => 8,
        Operation.Batch or Operation.ClaimAndPublish or Operation.ClaimAndAbandon or Operation.ConsumeBatch => 4,
        Operation.Reopen or Operation.Flush or Operation.ReadAll => 1,
        _ => 2,
    };
}
