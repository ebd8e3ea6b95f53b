using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Again;

/// <summary>
/// Calls that die at each of their points in turn and are made again by another process; then the power goes. What a process
/// finds, and what its own call then promises, may rest on what the dead one has not synced.
/// </summary>
internal sealed class RepeatPart : LabPart
{
    /// <summary>One run is one of these, whatever chance says about its cuts.</summary>
    private static readonly Func<RepeatScenario>[] s_scenarios =
    [
        () => new MakeAgain(),
        () => new SetPolicyAgain(byOptions: true), () => new SetPolicyAgain(byOptions: false),
        () => new OpenConsumerAgain(), () => new CommitAgain(), () => new DeleteConsumerAgain(), () => new ResetConsumerAgain(),
        () => new OpenMemberAgain(), () => new DeleteGroupAgain(), () => new TrimSavedAgain(),
        () => new OpenNumberedAgain(), () => new DeleteProducerAgain(),
        () => new TrimAgain { Recycles = true }, () => new TrimAgain(),
        () => new TrimAgain { Recycles = true, HasNoRecord = true }, () => new TrimAgain { HasNoRecord = true },
        () => new TrimAgain { Recycles = true, EndsThere = true }, () => new TrimAgain { EndsThere = true },
        () => new TrimAgain { Recycles = true, EndsThere = true, HasNoRecord = true },
        () => new TrimAgain { Recycles = true, IsUnflushed = true }, () => new TrimAgain { IsUnflushed = true },
        () => new TrimAgain { Recycles = true, AppendsBefore = true },
        () => new AppendAgain(ProducerMode.Shared), () => new AppendAgain(ProducerMode.Exclusive), () => new FlushAgain(),
        () => new RecoverAgain(), () => new RecoverPoisonAgain(),
    ];

    public override string Name => "again";

    public override string Help => "calls that are killed at each point, made again by another process, and cut";

    public override bool Prepare(LabOptions options, PartResult result)
    {
        LabThread.TakeOver();
        return true;
    }

    public override void Finish() => LabThread.LetGo();

    public override void Run(int seed, LabOptions options, PartResult result)
    {
        int chosen = (seed % s_scenarios.Length + s_scenarios.Length) % s_scenarios.Length;
        new RepeatRun(seed, result, s_scenarios[chosen], message => result.Violate(seed, message, Replay(seed, options))).Run();
    }

    public override bool IsEnough(int runs, LabOptions options, PartResult result) => runs >= s_scenarios.Length;
}
