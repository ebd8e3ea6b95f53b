using System.Runtime;

namespace MappedFileQueues.Tool.Bench.Measuring;

/// <summary>
/// Runs what will be measured until the JIT compiler has nothing left to improve, with its default settings: code starts
/// unoptimised, is compiled again in the background after 30 calls and a quiet 100 ms, with instrumentation, and once more
/// after 30 further calls.
/// </summary>
internal static class WarmUp
{
    private const int CallsPerRound = 40;
    private const int RoundsMin = 5;
    private const int RoundsMax = 15;

    /// <summary>Longer than the 100 ms of quiet after which the background compilation starts.</summary>
    private static readonly TimeSpan s_pause = TimeSpan.FromMilliseconds(125);

    /// <summary>Calls the body until two rounds in a row have compiled nothing.</summary>
    public static void UntilCompiled(Action body)
    {
        long compiled = -1;
        int quietRounds = 0;
        for (int round = 0; round < RoundsMax && (round < RoundsMin || quietRounds < 2); round++)
        {
            for (int call = 0; call < CallsPerRound; call++)
                body();
            Thread.Sleep(s_pause);
            long now = JitInfo.GetCompiledMethodCount();
            quietRounds = now == compiled ? quietRounds + 1 : 0;
            compiled = now;
        }
    }

    /// <summary>
    /// The same for two processes that meet in the body, so that both must call it equally often: four rounds of one call,
    /// which runs its loops often enough itself.
    /// </summary>
    public static void OfPair(Action body)
    {
        for (int round = 0; round < 4; round++)
        {
            body();
            Thread.Sleep(s_pause);
        }
    }
}
