using System.Diagnostics;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// `mfq repair --apply`, killed at each of its calls that change the disk, one after the other: no message that could be read
/// before is lost, the files as they were are kept, and the next run finishes.
/// </summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class RepairKillTests : IDisposable
{
    private const int Count = 200;
    private const int SegmentSize = 4096;
    private const int FrameLength = 128;
    private const int InSegment = SegmentSize / FrameLength;
    private const int DamagedMessage = 42;
    private const int MissingSegment = 3;
    private const int ExitCodeKilled = 137;

    /// <summary>The files that a repair changes.</summary>
    private static readonly string[] s_changed =
    [
        $"commitlog/{SegmentSize:D20}.log", "offset/producer.checkpoint", "retention", "offset/consumers/behind.cursor",
    ];

    private readonly TempStore _temp = new();

    private string Damaged => Path.Combine(_temp.Root, "damaged");

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData("renameat", 1, 5)]
    [InlineData("unlinkat", 1, 7)]
    [InlineData("fsync", 1, 8)]
    [InlineData("pwrite64", 1, 6)]
    [InlineData("fdatasync", 10, 5)]
    public void Apply_KilledAtACall_LosesNothingAndTheNextRunFinishes(string call, int step, int killsMin)
    {
        Assert.SkipUnless(HasTracer(), "strace is not installed.");
        Damage();
        int[] whole =
            [.. Enumerable.Range(0, Count).Where(number => number != DamagedMessage && number / InSegment != MissingSegment)];
        // The checkpoint is lost, but what was durable tells a reader that the log continues after the missing segment.
        List<int> readable = Numbers(Damaged, CorruptionPolicy.SkipMessage);
        Assert.Equal(whole, readable);
        int kills = 0;
        for (int when = 1; ; when += step)
        {
            CopyFolder(Damaged, _temp.StorePath);
            int exitCode = RepairKilledAt(call, when).ExitCode;
            string told = $"{call} {when}";
            if (exitCode == ExitCodeKilled)
            {
                kills++;
                Assert.Empty(readable.Except(Numbers(_temp.StorePath, CorruptionPolicy.SkipMessage)));
                ToolRun.Of("repair", _temp.StorePath, "--apply").Expect(0);
            }

            Assert.True(exitCode is 0 or ExitCodeKilled, $"{told}: {exitCode}");
            Assert.Equal(whole, Numbers(_temp.StorePath, CorruptionPolicy.Throw));
            AssertKept(told);
            AssertUsable();
            Directory.Delete(_temp.StorePath, recursive: true);
            if (exitCode == 0)
                break;
        }

        Assert.True(kills >= killsMin, $"{call}: killed {kills} times");
    }

    private static bool HasTracer() => OperatingSystem.IsLinux() && File.Exists("/usr/bin/strace");

    /// <summary>The call is not made any more. Other threads of the tool make none of these.</summary>
    private ToolRun RepairKilledAt(string call, int when) => ToolRun.Start(
        new ProcessStartInfo(
            "strace",
            [
                "-f", "-qq", "-o", "/dev/null", "-e", $"trace={call}", "-e", $"inject={call}:signal=SIGKILL:when={when}",
                "dotnet", "exec", Repository.ToolPath, "repair", _temp.StorePath, "--apply",
            ]),
        []);

    private void AssertUsable()
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath });
        queue.Producer.Produce(new byte[120]);
        using MappedFileConsumer fine = queue.OpenConsumer("fine");
        Assert.Equal(3, int.Parse(fine.Consume()[..20], null));
    }

    private void AssertKept(string told)
    {
        byte[][] kept = [.. Directory.GetFiles(_temp.PathOf("salvage")).Select(File.ReadAllBytes)];
        Assert.All(s_changed, name => Assert.True(
            kept.Any(bytes => bytes.AsSpan().SequenceEqual(File.ReadAllBytes(Path.Combine(Damaged, name)))), $"{told}: {name}"));
    }

    /// <summary>A damaged message, a missing segment, a lost checkpoint, a policy and a cursor that are garbage.</summary>
    private void Damage()
    {
        ToolRun.Of("produce", Damaged, "--messages", $"{Count}", "--size", "120", "--segment-size", $"{SegmentSize}").Expect(0);
        foreach (string name in new[] { "behind", "fine" })
            ToolRun.Of("consume", Damaged, "--consumer", name, "--commit", "--count", "3").Expect(0);
        ToolRun.Of("retention", Damaged, "--max-bytes", "1GiB").Expect(0);
        Write(s_changed[0], (DamagedMessage % InSegment * FrameLength) + 40, [1]);
        Write(s_changed[1], 0, new byte[8192]);
        Write(s_changed[2], 20, [77]);
        Write(s_changed[3], 0, BitConverter.GetBytes((1UL << 63) | ((6 * FrameLength) + 40)));
        File.Delete(Path.Combine(Damaged, $"commitlog/{MissingSegment * SegmentSize:D20}.log"));
    }

    private static List<int> Numbers(string path, CorruptionPolicy policy)
    {
        using MappedFileReader reader = MappedFileReader.Open(path, QueueStart.Earliest, policy);
        List<int> numbers = [];
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            numbers.Add(int.Parse(message[..20], null));
        return numbers;
    }

    private void Write(string name, long position, byte[] bytes)
    {
        using FileStream stream = new(Path.Combine(Damaged, name), FileMode.Open, FileAccess.ReadWrite);
        stream.Position = position;
        stream.Write(bytes);
    }

    private static void CopyFolder(string from, string to)
    {
        foreach (string folder in Directory.GetDirectories(from, "*", SearchOption.AllDirectories).Prepend(from))
            Directory.CreateDirectory(Path.Combine(to, Path.GetRelativePath(from, folder)));
        foreach (string file in Directory.GetFiles(from, "*", SearchOption.AllDirectories))
            File.Copy(file, Path.Combine(to, Path.GetRelativePath(from, file)));
    }
}
