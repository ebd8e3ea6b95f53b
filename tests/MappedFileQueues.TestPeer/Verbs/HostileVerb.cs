using System.Diagnostics;
using System.Globalization;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `hostile FOLDER struct|messages verified|unverified same|cut SEED COUNT|all PART PARTS POLICY`: makes a store, then for each
/// damage writes it anew, damages it and reads it back: by a reader that leaves no trace, by a known and by a new consumer,
/// and, in turn, after an append. Prints `AT n …` before each damage, `BAD n …` for each complaint, and `DONE n` last, so that
/// the parent of a process that was killed, or that hangs, knows over what.
/// </summary>
internal static class HostileVerb
{
    private const int ExitHang = 3;

    /// <summary>One damage takes milliseconds; a machine under load, some hundred.</summary>
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(60);

    public static int Run(string[] arguments)
    {
        var store = new HostileStore(
            Path.Combine(arguments[0], "store"), arguments[1] == "struct", arguments[2] == "verified", arguments[3] == "cut",
            Enum.Parse<CorruptionPolicy>(arguments[8]));
        int seed = int.Parse(arguments[4], CultureInfo.InvariantCulture);
        IEnumerable<HostileDamage> damages = arguments[5] == "all"
            ? HostileDamages.All(store.Files)
            : HostileDamages.Sample(store.Files, new Random(seed), int.Parse(arguments[5], CultureInfo.InvariantCulture));
        int part = int.Parse(arguments[6], CultureInfo.InvariantCulture);
        int parts = int.Parse(arguments[7], CultureInfo.InvariantCulture);
        Console.WriteLine($"STORE {store.Messages.Count} messages, {store.Files.Count} files, tail {store.TailOffset}");

        long since = Stopwatch.GetTimestamp();
        using var watch = new Timer(
            _ =>
            {
                if (Stopwatch.GetElapsedTime(Volatile.Read(ref since)) > s_patience)
                    Environment.Exit(ExitHang);
            },
            null,
            s_patience,
            TimeSpan.FromSeconds(1));
        var check = new HostileCheck(store);
        int number = 0;
        int done = 0;
        foreach (HostileDamage damage in damages)
        {
            if (number++ % parts != part)
                continue;
            Volatile.Write(ref since, Stopwatch.GetTimestamp());
            store.Restore();
            if (!damage.Apply(store.Path, store.Files[damage.File]))
                continue;
            Console.WriteLine($"AT {number} {damage}");
            check.Look(damage);
            foreach (string complaint in Try(store, check, damage, number))
                Console.WriteLine($"BAD {number} {damage}: {complaint}");
            done++;
        }

        Console.WriteLine($"DONE {done}");
        return 0;
    }

    private static IEnumerable<string> Try(HostileStore store, HostileCheck check, HostileDamage damage, int number)
    {
        List<string?> complaints = [];
        try
        {
            complaints.Add(Prefix("reader", check.Reader(damage, store.Read())));
            _ = store.Read(QueueStart.Latest);
            TryAttached(store, check, damage, number, complaints);
            complaints.Add(Prefix("reader afterwards", check.NewConsumer(damage, WithoutAppended(store, store.Read()))));
        }
        catch (Exception error) when (error is not MappedFileQueueException)
        {
            complaints.Add($"threw {error}");
        }

        return complaints.OfType<string>();
    }

    private static void TryAttached(
        HostileStore store, HostileCheck check, HostileDamage damage, int number, List<string?> complaints)
    {
        HostileReading known;
        HostileReading fresh;
        HostileQueue? queue = null;
        try
        {
            queue = store.Open(number % 2 == 0 ? ProducerMode.Shared : ProducerMode.Exclusive);
        }
        catch (MappedFileQueueException error)
        {
            known = new HostileReading([], error);
            complaints.Add(Prefix("opening", check.NewConsumer(damage, known)));
            return;
        }

        using (queue)
        {
            known = queue.Consume(HostileStore.ConsumerName, waitAtEnd: TimeSpan.FromMilliseconds(number % 16 == 0 ? 2 : 0));
            complaints.Add(Prefix("known consumer", check.KnownConsumer(damage, known)));
            fresh = queue.Consume("fresh");
            complaints.Add(Prefix("new consumer", check.NewConsumer(damage, fresh)));
            if (number % 3 == 0)
                complaints.Add(Prefix("append", TryAppend(store, queue, check)));
        }
    }

    private static string? TryAppend(HostileStore store, HostileQueue queue, HostileCheck check)
    {
        try
        {
            long offset = store.Append(queue, 0);
            string? complaint = check.Appended(store.Read(QueueStart.FromOffset(offset)), offset, store.AppendedBytes(0));
            store.Append(queue, 1);
            queue.Flush();
            return complaint;
        }
        catch (MappedFileQueueException)
        {
            return null;
        }
    }

    /// <summary>What this test appended is none of the messages that were damaged.</summary>
    private static HostileReading WithoutAppended(HostileStore store, HostileReading reading) => new(
        [.. reading.Messages.Where(message => !store.IsAppended(message.Bytes))], reading.Failure);

    private static string? Prefix(string who, string? complaint) => complaint is null ? null : $"{who}: {complaint}";
}
