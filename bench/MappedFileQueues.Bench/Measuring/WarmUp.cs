using System.Runtime;

namespace MappedFileQueues.Bench.Measuring;

/// <summary>
/// Runs what will be measured until the JIT compiler has nothing left to improve, with its default settings: code starts
/// unoptimised, is compiled again in the background after 30 calls and a quiet 100 ms, with instrumentation, and once more
/// after 30 further calls.
/// </summary>
internal static class WarmUp
{
    private const int CallsPerRound = 40;
    private const int RoundsMin = 5;
    private const int PairRounds = 6;

    /// <summary>With one CPU the runtime waits ten times as long before it compiles again; nobody measures there.</summary>
    private static readonly int s_roundsMax = Environment.ProcessorCount > 1 ? 24 : RoundsMin;

    /// <summary>A body is called at most so often.</summary>
    public static int CallsMax => s_roundsMax * CallsPerRound;

    /// <summary>So many methods are compiled again at least once the background compilation has begun.</summary>
    private const int RecompiledMin = 8;

    /// <summary>A round that is faster than all before it by less than this is not faster.</summary>
    private const double Improvement = 0.8;

    /// <summary>Longer than the 100 ms of quiet after which the background compilation starts.</summary>
    private static readonly TimeSpan s_pause = TimeSpan.FromMilliseconds(125);

    /// <summary>Whether bodies are called only once.</summary>
    public static bool IsLeftOut { get; set; }

    /// <summary>
    /// Calls the body in rounds until the background compilation has begun and two rounds in a row brought nothing. On a busy
    /// machine it begins late, so the number of rounds alone says nothing.
    /// </summary>
    public static void UntilCompiled(Action body)
    {
        if (IsLeftOut)
        {
            body();
            return;
        }

        long compiledAtFirst = 0;
        long best = long.MaxValue;
        int steadyRounds = 0;
        bool hasBegun = false;
        for (int round = 0; round < s_roundsMax && (round < RoundsMin || !hasBegun || steadyRounds < 2); round++)
        {
            long start = Clock.Now;
            for (int call = 0; call < CallsPerRound; call++)
                body();
            long took = Clock.Now - start;
            steadyRounds = took < best * Improvement ? 0 : steadyRounds + 1;
            best = Math.Min(best, took);
            Thread.Sleep(s_pause);
            if (round == 0)
                compiledAtFirst = JitInfo.GetCompiledMethodCount();
            hasBegun = JitInfo.GetCompiledMethodCount() >= compiledAtFirst + RecompiledMin;
        }
    }

    /// <summary>
    /// The same for two processes that meet in the body, so that both must call it equally often: rounds of one call each,
    /// which runs its loops often enough itself.
    /// </summary>
    public static void OfPair(Action body)
    {
        for (int round = 0; round < (IsLeftOut ? 1 : PairRounds); round++)
        {
            body();
            Thread.Sleep(s_pause);
        }
    }
}
