using System.Diagnostics;
using System.Globalization;

namespace MappedFileQueues.Tests.Crash.Storm;

/// <summary>
/// Starts victims and sees them die. Their programs are started ahead and wait for a line, so that starting a runtime does not
/// set the pace.
/// </summary>
internal sealed class StormKiller(
    string storePath, string boardPath, StormBoard board, int seed, (string Role, string Step, int HitMax)[] deaths)
{
    /// <summary>
    /// Not every victim comes to its step (a repair, say, another may have made): then it is killed at some moment.
    /// </summary>
    private static readonly TimeSpan s_patience = TimeSpan.FromMilliseconds(700);

    private readonly Random _random = new(seed);

    public void Kill(int count, int aliveMax)
    {
        var ready = new Queue<Victim>();
        var alive = new List<Victim>();
        int started = 0;
        for (int killed = 0; killed < count;)
        {
            while (started < count && ready.Count + alive.Count < aliveMax + 2)
                ready.Enqueue(Start(started++));
            while (alive.Count < aliveMax && ready.Count > 0)
            {
                Victim next = ready.Dequeue();
                next.Process.WaitForLine("ready");
                next.Process.Input.WriteLine("go");
                next.Began = Stopwatch.GetTimestamp();
                alive.Add(next);
            }

            foreach (Victim victim in alive.Where(IsOver).ToList())
            {
                victim.Process.ExpectExit(ChildProcess.ExitCodeKilled);
                victim.Process.Dispose();
                alive.Remove(victim);
                killed++;
            }

            Thread.Sleep(1);
        }
    }

    private Victim Start(int line)
    {
        (string role, string step, int hitMax) = deaths[line % deaths.Length];
        string[] arguments =
        [
            "storm", storePath, boardPath, line.ToString(CultureInfo.InvariantCulture),
            _random.Next().ToString(CultureInfo.InvariantCulture), role, step,
            _random.Next(1, hitMax + 1).ToString(CultureInfo.InvariantCulture),
        ];
        TimeSpan life = step == "-" ? TimeSpan.FromMilliseconds(_random.Next(20, 300)) : s_patience;
        return new Victim(line, ChildProcess.StartPeer(arguments), life);
    }

    /// <summary>Gone by itself, or killed now because its time is up.</summary>
    private bool IsOver(Victim victim)
    {
        if (victim.Process.HasExited)
            return true;
        if (Stopwatch.GetElapsedTime(victim.Began) < victim.Life)
            return false;
        // The victim may be at its step in this moment, and writes the same word: either time will do.
        Volatile.Write(ref board.Died(victim.Line), Stopwatch.GetTimestamp());
        victim.Process.Signal(ChildProcess.SigKill);
        return true;
    }

    private sealed class Victim(int line, ChildProcess process, TimeSpan life)
    {
        public int Line => line;

        public ChildProcess Process => process;

        public TimeSpan Life => life;

        public long Began { get; set; }
    }
}
