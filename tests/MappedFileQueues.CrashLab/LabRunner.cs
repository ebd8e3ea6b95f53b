using System.Diagnostics;

namespace MappedFileQueues.CrashLab;

/// <summary>Makes the runs of a part until its budget, the number of runs or the time is used up.</summary>
internal static class LabRunner
{
    /// <summary>
    /// A run hangs, which is a violation too, when neither it nor one beside it has counted anything for so long: a planted
    /// mistake may make a frame of the dead look like a claim of the living. The time of a whole run says nothing: one with
    /// 10,227 images takes 12 seconds on a quiet machine, and ran into a limit of three minutes beside twenty busy threads.
    /// </summary>
    private static readonly TimeSpan s_patience = TimeSpan.FromMinutes(3);

    private static readonly TimeSpan s_watchEvery = TimeSpan.FromSeconds(10);

    public static PartResult Run(LabPart part, LabOptions options)
    {
        var result = new PartResult(part.Name);
        if (part.Prepare(options, result))
        {
            try
            {
                RunAll(part, options, result);
            }
            finally
            {
                part.Finish();
            }
        }

        result.Print();
        return result;
    }

    private static void RunAll(LabPart part, LabOptions options, PartResult result)
    {
        int started = 0;
        Thread[] threads = new Thread[Math.Min(options.Jobs, part.JobsMax)];
        for (int i = 0; i < threads.Length; i++)
        {
            threads[i] = new Thread(() =>
            {
                while (true)
                {
                    int run = Interlocked.Increment(ref started) - 1;
                    if (IsOver(part, options, result, run))
                        return;
                    RunOne(part, unchecked(options.Seed + run), options, result);
                }
            });
            threads[i].Start();
        }

        foreach (Thread thread in threads)
            thread.Join();
    }

    private static bool IsOver(LabPart part, LabOptions options, PartResult result, int run)
    {
        if (options.StopsAtFirst && result.Violations.Count > 0)
            return true;
        if (options.Runs is { } runs)
            return run >= runs;
        return options.Time is { } time ? result.Elapsed >= time : part.IsEnough(run, options, result);
    }

    private static void RunOne(LabPart part, int seed, LabOptions options, PartResult result)
    {
        long began = Stopwatch.GetTimestamp();
        using var watch = new Timer(_ =>
        {
            if (Stopwatch.GetElapsedTime(began) >= s_patience && result.SinceLastCount >= s_patience)
                Hang(part, seed, options, result);
        }, null, s_watchEvery, s_watchEvery);
        try
        {
            part.Run(seed, options, result);
        }
        catch (Exception error)
        {
            result.Violate(seed, error is Work.LabViolation ? error.Message : error.ToString(), part.Replay(seed, options));
        }

        result.Add("runs");
    }

    /// <summary>A thread that hangs inside the engine cannot be ended: the whole program goes, and says why.</summary>
    private static void Hang(LabPart part, int seed, LabOptions options, PartResult result)
    {
        result.Violate(seed, $"a run hangs: nothing was counted for {s_patience}", part.Replay(seed, options));
        Processes.LabChild.KillAll();
        Console.Out.Flush();
        Environment.Exit(1);
    }
}
