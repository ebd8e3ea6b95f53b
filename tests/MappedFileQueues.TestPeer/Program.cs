namespace MappedFileQueues.TestPeer;

/// <summary>
/// The other process of the tests that need one. `--portable` before the verb selects the portable platform, which must
/// happen before the core's platform is first asked for; a verb gets what is after its name, and its result is the exit
/// code.
/// </summary>
internal static class Program
{
    private const int ExitUsage = 64;

    /// <summary>Each verb with what it does. A verb of more than a few lines lives in a file of its own.</summary>
    private static readonly Dictionary<string, Func<string[], int>> s_verbs = new(StringComparer.Ordinal)
    {
        ["agent"] = static _ => new Agent().Run(),
        ["echo"] = Echo,
        ["group-work"] = Verbs.GroupWorkVerb.Run,
        ["hostile"] = Verbs.HostileVerb.Run,
        ["interop"] = Verbs.InteropVerb.Run,
        ["open"] = Verbs.OpenVerb.Open,
        ["first-append"] = Verbs.OpenVerb.FirstAppend,
        ["bad-sector"] = Verbs.BadSectorVerb.Run,
        ["fill"] = Verbs.FillVerb.Run,
        ["append"] = Verbs.AppendVerb.Run,
        ["full-pool"] = Verbs.FullPoolVerb.Run,
        ["make"] = Verbs.MakeVerb.Run,
        ["idle"] = Verbs.IdleVerb.Run,
        ["no-threads"] = Verbs.NoThreadsVerb.Run,
        ["pending-waits"] = Verbs.PendingWaitsVerb.Run,
        ["lost-disk"] = Verbs.LostDiskVerb.Run,
        ["stress-produce"] = StressProducer.Run,
        ["race"] = Verbs.RaceVerb.Run,
        ["misuse"] = Verbs.MisuseVerb.Run,
        ["read-blocks"] = Verbs.ReadBlocksVerb.Run,
        ["read-lines"] = Verbs.ReadLinesVerb.Run,
        ["pack-fill"] = Verbs.PackFillVerb.Fill,
        ["pack-watch"] = Verbs.PackFillVerb.Watch,
        ["pack-hostile"] = Verbs.PackHostile.Run,
        ["pack-write"] = Verbs.PackWriteVerb.Run,
    };

    private static int Main(string[] arguments)
    {
        if (arguments is ["--portable", ..])
        {
            AppContext.SetSwitch("MappedFileQueues.UsePortablePlatform", true);
            arguments = arguments[1..];
        }

        if (arguments.Length > 0 && s_verbs.TryGetValue(arguments[0], out Func<string[], int>? verb))
            return verb(arguments[1..]);

        string verbs = string.Join(", ", s_verbs.Keys);
        Console.Error.WriteLine($"Usage: MappedFileQueues.TestPeer [--portable] VERB [ARGUMENT…]; verbs: {verbs}");
        return ExitUsage;
    }

    /// <summary>
    /// Repeats its arguments, a line each, then what it is sent on standard input until that ends. For the tests of the harness.
    /// </summary>
    private static int Echo(string[] arguments)
    {
        foreach (string argument in arguments)
            Console.WriteLine(argument);
        while (Console.ReadLine() is { } line)
            Console.WriteLine(line);
        return 0;
    }
}
