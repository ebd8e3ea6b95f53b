namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `race CASE STORE`: brings two threads of this process to one place of a protocol, in the order that once went wrong. What
/// goes wrong there is mostly a store into a page that is gone, which kills the process; so each case has one of its own.
/// Prints `held` when nothing did.
/// </summary>
internal static class RaceVerb
{
    private static readonly Dictionary<string, Action<string>> s_cases = new(StringComparer.Ordinal)
    {
        ["wait-added-before-unmap"] = AsyncWaitRaces.WaitAddedBeforeUnmap,
        ["waits-and-cancels"] = AsyncWaitRaces.WaitsAndCancels,
        ["call-checked-before-unmap"] = DisposeRaces.CallCheckedBeforeUnmap,
        ["claim-published-as-it-times-out"] = DisposeRaces.ClaimPublishedAsItTimesOut,
        ["span-after-move"] = SpanMoves.SpanAfterMove,
        ["span-after-move-and-dispose"] = SpanMoves.SpanAfterMoveAndDispose,
        ["span-after-others-copies"] = SpanMoves.SpanAfterOthersCopies,
        ["span-after-other-forgets"] = SpanMoves.SpanAfterOtherForgets,
        ["fill-shared"] = path => OwnDisposes.InFill(path, ProducerMode.Shared),
        ["fill-exclusive"] = path => OwnDisposes.InFill(path, ProducerMode.Exclusive),
        ["batch-shared"] = path => OwnDisposes.InBatch(path, ProducerMode.Shared),
        ["batch-exclusive"] = path => OwnDisposes.InBatch(path, ProducerMode.Exclusive),
    };

    public static int Run(string[] arguments)
    {
        s_cases[arguments[0]](arguments[1]);
        Console.WriteLine("held");
        return 0;
    }

    public static MappedFileQueue Open(string path, ProducerMode mode = ProducerMode.Shared, TimeSpan lockTimeout = default) =>
        new(new MappedFileQueueOptions
        {
            StorePath = path,
            SegmentSize = 64 * 1024,
            ProducerMode = mode,
            LockTimeout = lockTimeout,
        });

    /// <summary>Fails the case.</summary>
    public static void Expect(bool condition, string what)
    {
        if (!condition)
            throw new InvalidOperationException($"Expected: {what}");
    }

    /// <summary>Runs a call that must find its object disposed.</summary>
    public static void ExpectDisposed(Action call)
    {
        try
        {
            call();
        }
        catch (Exception error) when (error is ObjectDisposedException || error.InnerException is ObjectDisposedException)
        {
            return;
        }

        Expect(false, nameof(ObjectDisposedException));
    }
}
