using FsCheck;
using FsCheck.Fluent;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Randomized;

/// <summary>
/// Random steps on tiny segments against a list. A failure shows the shrunk steps and its seed; with the environment variable
/// MFQ_REPLAY set to that seed ("(1,2)" or "(1,2,3)") the same steps are taken again.
/// </summary>
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
        Arbitrary<Step[]> steps = Steps();
        Property property = Prop.ForAll(steps, taken =>
        {
            PlatformScope.Use(portable);
            using var run = new ModelRun(mode);
            foreach (Step step in taken)
                run.Take(step);
            return true;
        });
        Config config = Config.QuickThrowOnFailure.WithMaxTest(RunsMax).WithEndSize(120);
        if (Environment.GetEnvironmentVariable("MFQ_REPLAY") is { Length: > 0 } seed)
            config = config.WithReplay(ParseSeed(seed));
        Check.One(config, property);
    }

    private static Arbitrary<Step[]> Steps()
    {
        Gen<int> number = Gen.Frequency(
            (6, Gen.Choose(0, 120)), (2, Gen.Choose(0, 1500)), (1, Gen.Elements(0, 1, 7, 8, 4000, 4020)));
        (int Weight, Gen<Operation> Operation)[] weights =
        [
            .. Enum.GetValues<Operation>().Select(operation => (Weight(operation), Gen.Constant(operation))),
        ];
        Gen<Step> step = from operation in Gen.Frequency(weights) from value in number select new Step(operation, value);
        return Arb.From(step.ArrayOf(), Shrink);
    }

    private static int Weight(Operation operation) => operation switch
    {
        Operation.Produce => 12,
        Operation.Consume or Operation.Commit or Operation.Advance => 8,
        Operation.Batch or Operation.ClaimAndPublish or Operation.ClaimAndAbandon or Operation.ConsumeBatch => 4,
        Operation.Reopen or Operation.Flush or Operation.ReadAll => 1,
        _ => 2,
    };

    /// <summary>Halves first, then every list with one step less.</summary>
    private static IEnumerable<Step[]> Shrink(Step[] steps)
    {
        if (steps.Length > 3)
        {
            yield return steps[..(steps.Length / 2)];
            yield return steps[(steps.Length / 2)..];
        }

        for (int i = 0; i < steps.Length; i++)
            yield return [.. steps[..i], .. steps[(i + 1)..]];
    }

    private static Replay ParseSeed(string text)
    {
        string[] parts = text.Trim('(', ')').Split(',');
        var random = new Rnd(ulong.Parse(parts[0]), ulong.Parse(parts[1]));
        return parts.Length > 2 ? new Replay(random, int.Parse(parts[2])) : new Replay(random, null);
    }
}
