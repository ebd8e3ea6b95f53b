using System.Diagnostics;
using System.Globalization;
using System.Text;

namespace MappedFileQueues.Tests.Interop;

/// <summary>
/// Producers and consumers in C, Python and C#, on both platforms, with one store. Each is stopped now and then, killed at any
/// moment and started again, while segments are removed and used again. Each prints what it has done: a producer each message
/// after it was appended, a consumer each one before it commits it. So every consumer has to see every message once and in the
/// same order; of a producer that was killed, all that it said and at most one message more.
/// </summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class ProducerMatrixTests
{
    /// <summary>A laboratory may want more.</summary>
    private static readonly TimeSpan s_storm = TimeSpan.FromSeconds(int.Parse(
        Environment.GetEnvironmentVariable("MFQ_MATRIX_SECONDS") ?? "8", CultureInfo.InvariantCulture));

    private static readonly TimeSpan s_gap = TimeSpan.FromMilliseconds(100);

    /// <summary>Long enough for a machine that stands still: then the rest is read.</summary>
    private static readonly TimeSpan s_restGap = TimeSpan.FromSeconds(2);

    private readonly int _seed = Environment.TickCount;
    private readonly Dictionary<string, int> _said = new(StringComparer.Ordinal);
    private int _kills;
    private int _stops;

    private static string[] InC => [CLibrary.Checked];

    private static string[] InCSharp => ["dotnet", "exec", Repository.TestPeerPath, "interop"];

    private static string[] Portable => ["dotnet", "exec", Repository.TestPeerPath, "--portable", "interop"];

    private static string[] InPython => PythonPackage.Program;

    [Fact]
    public async Task Produce_SharedInEveryLanguage_EachMessageComesOnceAndInOrder()
    {
        Vectors.SkipWithoutPython();
        await RunAsync(
            new("c1", ["shared-bursts"], InC), new("c2", ["shared-group"], InC), new("c3", ["shared-flush-bursts"], InC),
            new("s1", ["shared-bursts"], InCSharp), new("s2", ["shared-group"], InCSharp),
            new("portable", ["shared-flush-bursts"], Portable),
            new("p1", ["shared-bursts"], InPython), new("p2", ["shared-flush-bursts"], InPython));
    }

    /// <summary>Each continues, perhaps in the middle of a message, where one in another language was killed.</summary>
    [Fact]
    public async Task Produce_ExclusiveInEveryLanguageInTurn_EachMessageComesOnceAndInOrder()
    {
        Vectors.SkipWithoutPython();
        await RunAsync(new Turns(
            "x", ["exclusive-bursts", "exclusive-group", "exclusive-flush"], InC, InCSharp, InPython, Portable));
    }

    private async Task RunAsync(params Turns[] producers)
    {
        (string Name, string[] Program)[] consumers =
            [("by-c", InC), ("by-python", InPython), ("by-csharp", InCSharp), ("by-portable", Portable)];
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        queue.SetRetention(new RetentionOptions { MaxBytes = 128 * 1024, KeepUnconsumed = true });
        foreach ((string name, _) in consumers)
            queue.OpenConsumer(name).Dispose();
        using MappedFileConsumer oracle = queue.OpenConsumer("oracle");
        using var end = new CancellationTokenSource();
        using var produced = new CancellationTokenSource();
        Task<List<string>> everything = Task.Run(() => ConsumeAll(oracle, produced.Token), CancellationToken.None);
        Task[] producing = [.. producers.Select((one, i) => Task.Run(
            () => ProduceAgainAndAgain(store, one, new Random(_seed + i), end.Token),
            CancellationToken.None))];
        Task<List<string>>[] consuming = [.. consumers.Select((one, i) => Task.Run(
            () => ConsumeAgainAndAgain(store, one.Name, one.Program, new Random(_seed - i - 1), end.Token),
            CancellationToken.None))];
        await Task.Delay(s_storm, CancellationToken.None);
        // On a busy machine it takes longer.
        Eventually.True(() => queue.GetInfo().LogStart > 0, "a segment is removed");
        Eventually.True(() => _kills >= 3 * (producers.Length + consumers.Length) / 2, "every process was killed");
        await end.CancelAsync();
        await Task.WhenAll(producing);
        await produced.CancelAsync();
        List<string> all = await everything;
        CheckProducers(all);
        for (int i = 0; i < consumers.Length; i++)
        {
            List<string> seen = await consuming[i];
            // Once more where the first one had come before.
            while (seen.Count < all.Count)
                TakeOver(seen, Consume(store, consumers[i].Name, consumers[i].Program, all.Count - seen.Count));
            Assert.True(all.SequenceEqual(seen), $"seed={_seed}: {consumers[i].Name} differs from the oracle at "
                + $"{all.Zip(seen).TakeWhile(pair => pair.First == pair.Second).Count()} of {all.Count}, {seen.Count}");
        }

        // No claim is left anywhere.
        Assert.Equal(queue.Producer.Offset, queue.Flush());
        TestContext.Current.TestOutputHelper?.WriteLine(
            $"seed={_seed}: {all.Count} messages of {_said.Count} producers, {_kills} kills, {_stops} stops, "
            + $"{queue.GetInfo().RepairCount} repairs");
    }

    /// <summary>Each incarnation has a word of its own. The last one ends by itself.</summary>
    private void ProduceAgainAndAgain(TempStore store, Turns turns, Random random, CancellationToken end)
    {
        for (int i = 0; ; i++)
        {
            bool isLast = end.IsCancellationRequested;
            string word = string.Create(CultureInfo.InvariantCulture, $"{turns.Name}x{i}");
            string count = isLast ? "200" : "100000000";
            string[] program = turns.Programs[i % turns.Programs.Length];
            using ChildProcess run = Start(
                program, "produce", store.StorePath, turns.Modes[i % turns.Modes.Length], word, "0", count);
            if (isLast)
                run.ExpectExit(deadline: TimeSpan.FromMinutes(2));
            else
                LetLiveAndKill(run, random, end);
            lock (_said)
                _said.Add(word, run.Lines.Count(line => line.Length > 0 && char.IsDigit(line[0])));
            if (isLast)
                return;
        }
    }

    private List<string> ConsumeAgainAndAgain(
        TempStore store, string name, string[] program, Random random, CancellationToken end)
    {
        List<string> seen = [];
        while (!end.IsCancellationRequested)
        {
            using ChildProcess run = Start(program, "consume", store.StorePath, name, "100000000", "60000");
            LetLiveAndKill(run, random, end);
            TakeOver(seen, Messages(run));
        }

        return seen;
    }

    private void LetLiveAndKill(ChildProcess run, Random random, CancellationToken end)
    {
        run.WaitForLine(line => line.StartsWith("opened", StringComparison.Ordinal), TimeSpan.FromMinutes(2));
        end.WaitHandle.WaitOne(random.Next(20, 1200));
        if (random.Next(3) == 0)
        {
            run.Stop();
            end.WaitHandle.WaitOne(random.Next(20, 200));
            run.Continue();
            Interlocked.Increment(ref _stops);
        }

        Assert.False(run.HasExited, $"seed={_seed}: {run.ErrorText}");
        run.KillAndWait();
        Interlocked.Increment(ref _kills);
    }

    /// <summary>A line that the kill cut short, or that came before a commit, comes again.</summary>
    private static void TakeOver(List<string> seen, List<string> next)
    {
        if (seen.Count > 0 && next.Count > 0 && seen[^1] == next[0])
            next.RemoveAt(0);
        seen.AddRange(next);
    }

    private static List<string> Consume(TempStore store, string name, string[] program, int count)
    {
        using ChildProcess run = Start(program, "consume", store.StorePath, name, $"{count}", "60000");
        run.ExpectExit(deadline: TimeSpan.FromMinutes(2));
        return Messages(run);
    }

    private static List<string> Messages(ChildProcess run) =>
        [.. run.Lines.Where(line => line.Contains('x', StringComparison.Ordinal) && line.EndsWith('!'))];

    private static List<string> ConsumeAll(MappedFileConsumer oracle, CancellationToken produced)
    {
        List<string> all = [];
        while (true)
        {
            bool isOver = produced.IsCancellationRequested;
            while (oracle.TryConsume(out ReadOnlySpan<byte> message, isOver ? s_restGap : s_gap))
            {
                all.Add(Encoding.UTF8.GetString(message));
                oracle.Commit();
            }

            if (isOver)
                return all;
        }
    }

    private void CheckProducers(List<string> all)
    {
        Dictionary<string, int> found = InteropStore.CountOfEach(all, $"seed={_seed}");
        foreach ((string word, int said) in _said)
        {
            int there = found.GetValueOrDefault(word);
            Assert.True(there == said || there == said + 1, $"seed={_seed}: {word} said {said}, there are {there}");
        }

        Assert.Empty(found.Keys.Except(_said.Keys));
    }

    private static ChildProcess Start(string[] program, params string[] arguments) => ChildProcess.Start(
        new ProcessStartInfo(program[0], [.. program[1..], .. arguments]),
        new Dictionary<string, string>(PythonPackage.VariablesWithLibrary) { ["DOTNET_TieredPGO"] = "0" });

    /// <summary>What one producer is in turn, each killed before the next begins.</summary>
    private sealed record Turns(string Name, string[] Modes, params string[][] Programs);
}
