using MappedFileQueues.Memory;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>Producers that are disposed under a call or a claim of another thread.</summary>
internal static class DisposeRaces
{
    /// <summary>The queue is disposed between a call's first check and its mark.</summary>
    public static void CallCheckedBeforeUnmap(string path)
    {
        MappedFileQueue queue = RaceVerb.Open(path);
        MappedFileProducer producer = queue.Producer;
        producer.Produce([1]);
        StepTrap.Arm(ProtocolStep.CallChecked, 1, () => Run(queue.Dispose));
        RaceVerb.ExpectDisposed(() => _ = producer.Offset);
    }

    /// <summary>
    /// A claim is published between Dispose's look at the clock and its hand on the claim; another producer's claim of the same
    /// length is where the lane has moved to.
    /// </summary>
    public static void ClaimPublishedAsItTimesOut(string path)
    {
        using MappedFileQueue queue = RaceVerb.Open(path, lockTimeout: TimeSpan.FromMilliseconds(10));
        MappedFileProducer producer = queue.OpenProducer();
        using var claimed = new ManualResetEventSlim();
        using var mayPublish = new ManualResetEventSlim();
        Thread claiming = new(() =>
        {
            MessageClaim claim = producer.DangerousClaim(64);
            claimed.Set();
            mayPublish.Wait();
            claim.Span.Fill(1);
            claim.Publish(64);
        });
        claiming.Start();
        claimed.Wait();
        using MappedFileProducer other = queue.OpenProducer();
        MessageClaim living = other.DangerousClaim(64);
        living.Span.Fill(2);
        StepTrap.Arm(ProtocolStep.ClaimTimedOut, 1, () =>
        {
            mayPublish.Set();
            claiming.Join();
        });
        producer.Dispose();
        living.Publish(64);

        using MappedFileConsumer consumer = queue.OpenConsumer("all");
        foreach (byte expected in (byte[])[1, 2])
        {
            RaceVerb.Expect(consumer.TryConsume(out ReadOnlySpan<byte> message) && message[0] == expected, $"message {expected}");
            consumer.Advance();
        }
    }

    private static void Run(Action call)
    {
        Thread thread = new(() => call());
        thread.Start();
        thread.Join();
    }
}
