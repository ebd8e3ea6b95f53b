using FsCheck;
using FsCheck.Fluent;

namespace MappedFileQueues.Tests.Randomized;

/// <summary>
/// Random lists of steps. A failure shows the shrunk steps and its seed; with the environment variable MFQ_REPLAY set to that
/// seed ("(1,2)" or "(1,2,3)") the same steps are taken again.
/// </summary>
internal static class RandomSteps
{
    /// <summary>Takes many lists of steps; <paramref name="take"/> throws for one that does not go as the model says.</summary>
    public static void Check<T>(Gen<T> step, int runsMax, Action<T[]> take)
    {
        Property property = Prop.ForAll(Arb.From(step.ArrayOf(), Shrink), steps =>
        {
            take(steps);
            return true;
        });
        Config config = Config.QuickThrowOnFailure.WithMaxTest(runsMax).WithEndSize(120);
        if (Environment.GetEnvironmentVariable("MFQ_REPLAY") is { Length: > 0 } seed)
            config = config.WithReplay(ParseSeed(seed));
        FsCheck.Check.One(config, property);
    }

    /// <summary>Operations by their weight.</summary>
    public static Gen<T> Weighted<T>(Func<T, int> weight)
        where T : struct, Enum =>
        Gen.Frequency(Enum.GetValues<T>().Select(operation => (weight(operation), Gen.Constant(operation))).ToArray());

    /// <summary>Halves first, then every list with one step less.</summary>
    private static IEnumerable<T[]> Shrink<T>(T[] steps)
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
