using System.Runtime.InteropServices;

namespace MappedFileQueues.Tests.FastPaths;

/// <summary>
/// Time is noisy, and a loss of a tenth hides in it. Instructions do not lie: the straight path of each fast path calls nothing
/// unnamed and stays within a budget. Who needs more changes the table, and says why.
/// </summary>
[Trait("Category", "Slow")]
public sealed class FastPathTests
{
    /// <summary>The checksum's steps for a message of 64 bytes: its place and header, and eight words.</summary>
    private const int Steps = 9;

    private const int RunsMax = 12;

    private static readonly Lock s_running = new();
    private static readonly List<FastPathListing> s_runs = [];

    /// <summary>The budgets: what may be called, instructions, loads, locked instructions, and why not fewer.</summary>
    public static TheoryData<string, string[], int, int, int, string> Budgets => new()
    {
        {
            "Loops:Produce_Exclusive", [], 86, 20, 0,
            "27 for copy and checksum; marking the call for Dispose, the bound, the zero behind the message, the waiters' flag."
        },
        {
            "Loops:Produce_Shared", ["ProduceElsewhere(byref)"], 130, 27, 2,
            "As Exclusive, and the claim: one locked instruction each for claim and publish, since a claim may be taken away."
        },
        {
            "Loops:Consume_Commit", [], 96, 33, 0,
            "Two calls: each is marked for Dispose. A cursor with its check bits, the log start, and whether producers wait."
        },
        {
            "Loops:ProduceBytes_Exclusive", ["MappedFileProducer:ProduceAtOnce("], 142, 24, 0,
            "As for structs, with a length that is only known now: the loop over words, and the look at its end."
        },
        {
            "Loops:ProduceBytes_Shared", ["MappedFileProducer:ProduceElsewhere("], 164, 30, 2,
            "The same with the claim."
        },
        {
            "Loops:ConsumeBytes_Commit",
            [
                "MappedFileConsumer:Consume():", FastPathListing.RuntimesThread,
            ],
            162, 45, 0,
            "A span outlives its call: asks the runtime for the thread, as the stack may be the successor's of its owner. A "
                + "comparison leads to the checksum of long messages."
        },
        {
            "Loops:TryReadBytes",
            ["MappedFileReader:TryRead(", "MappedFileReader:TryReadNext(", FastPathListing.RuntimesThread],
            150, 32, 0,
            "As Consume without Commit, and whether a recovery has cut the log."
        },
    };

    [Theory]
    [MemberData(nameof(Budgets))]
    public void FastPath_Compiled_StaysWithinItsBudget(
        string method, string[] through, int instructions, int loads, int locked, string reason)
    {
        Assert.SkipUnless(
            OperatingSystem.IsLinux() && RuntimeInformation.ProcessArchitecture == Architecture.X64,
            "The budgets are those of x64 on Linux.");

        string found = "";
        for (int run = 0; run < RunsMax; run++)
        {
            PathCost? cost = ListingOf(run).FindStraightPath(method, Steps, locked, through);
            if (cost is { } spent && spent.Instructions <= instructions && spent.Loads <= loads)
                return;
            found += cost?.ToString() ?? "Each way calls something that is not named. ";
        }

        Assert.Fail($"{method}: {found}, budget: {instructions} instructions, {loads} loads, {locked} locked. {reason}");
    }

    /// <summary>
    /// The runtime compiles on two threads, which write to one listing: at times one tears the other's. Then the next run tells.
    /// What is over its budget is so in each.
    /// </summary>
    private static FastPathListing ListingOf(int run)
    {
        lock (s_running)
        {
            while (s_runs.Count <= run)
                s_runs.Add(new FastPathListing(FastPathProgram.List()));
            return s_runs[run];
        }
    }

    /// <summary>A budget that nothing can exceed guards nothing: the same code with one thing more is found out.</summary>
    [Theory]
    [InlineData("", 5, 1, 0)]
    [InlineData("       mov      rax, qword ptr [rsi+0x20]\n", 6, 2, 0)]
    [InlineData("       lock     \n       xadd     qword ptr [rsi], rax\n", null, null, null)]
    [InlineData("       call     [Other:Method()]\n", null, null, null)]
    public void StraightPath_WithOneThingMore_IsFoundOut(string more, int? instructions, int? loads, int? locked)
    {
        var listing = new FastPathListing($"""
            ; Assembly listing for method Some:Method() (Tier1)
            G_M000_IG01:                ;; offset=0x0000
                   cmp      byte  ptr [rdi], 0
                   jne      SHORT G_M000_IG03
            G_M000_IG02:                ;; offset=0x0010
                   ret      
            G_M000_IG03:                ;; offset=0x0020
                   crc32    rax, rdx
            {more}       mov      qword ptr [rsi], rax
                   ret      

            """);

        PathCost? cost = listing.FindStraightPath("Some:Method", checksumSteps: 1, locked: 0);

        Assert.Equal(instructions, cost?.Instructions);
        Assert.Equal(loads, cost?.Loads);
        Assert.Equal(locked, cost?.Locked);
    }
}
