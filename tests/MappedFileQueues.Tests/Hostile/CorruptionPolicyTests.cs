using System.Globalization;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Hostile;

/// <summary>
/// What consumers and readers do where the log is damaged. With SkipMessage every message that is whole is read exactly once and
/// in order, whatever became of its neighbours; with SkipSegment those before the damage and in the other segments; with Throw
/// those before it. Never a wrong message.
/// </summary>
[Trait("Category", "Slow")]
public sealed class CorruptionPolicyTests(ITestOutputHelper output)
{
    private const int Rounds = 60;
    private const int Segment = 16 * 1024;

    public static TheoryData<CorruptionPolicy, bool, ProducerMode, bool> Cases
    {
        get
        {
            var cases = new TheoryData<CorruptionPolicy, bool, ProducerMode, bool>();
            foreach (CorruptionPolicy policy in Enum.GetValues<CorruptionPolicy>())
            {
                cases.Add(policy, false, ProducerMode.Shared, false);
                cases.Add(policy, true, ProducerMode.Exclusive, false);
                cases.Add(policy, false, ProducerMode.Exclusive, true);
                cases.Add(policy, true, ProducerMode.Shared, true);
            }

            return cases;
        }
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public void Read_DamagedFiles_GivesWhatThePolicySays(CorruptionPolicy policy, bool isStruct, ProducerMode mode, bool portable)
    {
        PlatformScope.Use(portable);
        int seed = Seed();
        using DamagedLog log = Make(isStruct, mode);
        for (int round = 0; round < Rounds; round++)
        {
            var damage = new LogDamage(log, new Random(seed + round));
            log.Write(damage.Files);
            string what = $"MFQ_SEED={seed}, round {round}: {damage}";
            List<long> expected = log.Expected(damage.Files, policy);
            Check(expected, log.Read(policy).Numbers, $"reader, {what}");
            string name = string.Create(CultureInfo.InvariantCulture, $"c{round}");
            using (QueueUnderTest queue = log.Open(policy))
                Check(expected, DamagedLog.Consume(queue.OpenConsumer(name), policy), $"consumer, {what}");
            if (policy == CorruptionPolicy.Throw)
                continue;
            // Its place is after the damage, and must be believed again.
            using (QueueUnderTest queue = log.Open(policy))
            {
                Check([], DamagedLog.Consume(queue.OpenConsumer(name), policy), $"the same again, {what}");
                Check([], DamagedLog.Consume(queue.OpenConsumer("x" + name, QueueStart.Latest), policy), $"latest, {what}");
            }
        }

        log.Restore();
        Assert.Equal(log.Frames.Select(frame => frame.Number), log.Read(policy).Numbers);
    }

    /// <summary>The consumers are there when the damage comes, and the producer continues after it.</summary>
    [Theory]
    [InlineData(CorruptionPolicy.SkipMessage, true, ProducerMode.Shared)]
    [InlineData(CorruptionPolicy.SkipMessage, false, ProducerMode.Exclusive)]
    [InlineData(CorruptionPolicy.SkipSegment, true, ProducerMode.Exclusive)]
    [InlineData(CorruptionPolicy.SkipSegment, false, ProducerMode.Shared)]
    public void Consume_DamagedUnderTheQueue_GoesOnWithTheProducer(CorruptionPolicy policy, bool isStruct, ProducerMode mode)
    {
        int seed = Seed();
        using DamagedLog log = new(isStruct ? QueueKind.Struct : QueueKind.Message, mode, Segment);
        using QueueUnderTest queue = log.Open(policy);
        log.Fill(queue, 4 * Segment);
        log.TakePicture();
        for (int round = 0; round < Rounds / 2; round++)
        {
            var damage = new LogDamage(log, new Random(seed + round), keepsLengths: true, before: 3 * Segment);
            string what = $"MFQ_SEED={seed}, round {round}: {damage}";
            using ConsumerUnderTest consumer = queue.OpenConsumer(string.Create(CultureInfo.InvariantCulture, $"c{round}"));
            log.Write(damage.Files);
            Check(log.Expected(damage.Files, policy), DamagedLog.Consume(consumer, policy), what);
        }

        log.Restore();
        using ConsumerUnderTest last = queue.OpenConsumer("last", QueueStart.Latest);
        queue.Producer.Produce(4711);
        Assert.True(last.TryConsume(out long number));
        Assert.Equal(4711, number);
    }

    [Fact]
    public void Open_UndefinedPolicy_IsRefused()
    {
        using var folder = new TempStore();
        Assert.Throws<ArgumentOutOfRangeException>(() => new MappedFileQueue(
            new MappedFileQueueOptions { StorePath = folder.StorePath, Corruption = (CorruptionPolicy)3 }));
        Assert.Throws<ArgumentOutOfRangeException>(
            () => MappedFileReader.Open(folder.StorePath, default, (CorruptionPolicy)(-1)));
    }

    private static DamagedLog Make(bool isStruct, ProducerMode mode)
    {
        DamagedLog log = new(isStruct ? QueueKind.Struct : QueueKind.Message, mode, Segment);
        using (QueueUnderTest queue = log.Open(CorruptionPolicy.Throw))
            log.Fill(queue, (4 * Segment) + (Segment / 2));
        using (var words = new StoreWords(log.Path))
            words.SetCheckpoint(log.End);
        log.TakePicture();
        return log;
    }

    private static void Check(List<long> expected, List<long> numbers, string what)
    {
        if (!numbers.SequenceEqual(expected))
            Assert.Fail($"{what}\nread {numbers.Count} of {expected.Count}, missing: "
                + $"{string.Join(' ', expected.Except(numbers).Take(20))}"
                + $"\ntoo many: {string.Join(' ', numbers.Except(expected).Take(20))}");
    }

    private int Seed()
    {
        int seed = Environment.GetEnvironmentVariable("MFQ_SEED") is { } text
            ? int.Parse(text, CultureInfo.InvariantCulture)
            : Random.Shared.Next(1 << 30);
        output.WriteLine($"MFQ_SEED={seed}");
        return seed;
    }
}
