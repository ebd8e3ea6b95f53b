using System.Diagnostics;
using System.Globalization;
using System.Text;

namespace MappedFileQueues.Tests.Interop;

/// <summary>
/// Consumers in C#, C and Python take turns under one name, and are killed at any moment, while a producer appends and segments
/// are removed and used again. Each prints a message before it commits it.
/// </summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class ConsumerMatrixTests
{
    private const int Turns = 12;

    [Fact]
    public async Task Consume_KilledInEveryLanguage_NothingIsLostAndOnlyTheLastComesAgain()
    {
        Vectors.SkipWithoutPython();
        string[] inC = [CLibrary.Checked];
        string[] inPython = PythonPackage.Program;
        using var store = new TempStore();
        using var queue = new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            SegmentSize = 64 * 1024,
            Durability = DurabilityLevel.PageCache,
            MaxUnconsumedBytes = 128 * 1024,
            LockTimeout = TimeSpan.FromSeconds(10),
        });
        queue.SetRetention(new RetentionOptions { MaxBytes = 64 * 1024 });
        queue.OpenConsumer("turns").Dispose();
        using var end = new CancellationTokenSource();
        Task producing = Task.Run(() => Produce(queue, end.Token), CancellationToken.None);
        int seed = Environment.TickCount;
        var random = new Random(seed);
        int next = 0;
        for (int turn = 0; turn < Turns; turn++)
        {
            int least = random.Next(1, 1500);
            int last = turn % 3 == 2
                ? ConsumeHere(queue, next, least)
                : ConsumeAndKill(turn % 3 == 0 ? inC : inPython, store, next, least, seed);
            next = last + 1;
        }

        end.Cancel();
        // The producer may wait for room.
        ConsumeHere(queue, next, 1);
        queue.DeleteConsumer("turns");
        await producing.WaitAsync(TimeSpan.FromMinutes(5), CancellationToken.None);
        using MappedFileReader oldest = MappedFileReader.Open(store.StorePath);
        Assert.True(oldest.Offset > 0, "no segment was removed meanwhile");
    }

    private static void Produce(MappedFileQueue queue, CancellationToken end)
    {
        for (int i = 0; !end.IsCancellationRequested; i++)
        {
            string text = string.Create(CultureInfo.InvariantCulture, $"{i} {new string('x', i % 90)}");
            queue.Producer.Produce(Encoding.UTF8.GetBytes(text));
        }
    }

    /// <summary>Gives the last number that was printed. The first may be the last one of the turn before.</summary>
    private static int ConsumeAndKill(string[] program, TempStore store, int next, int least, int seed)
    {
        using ChildProcess run = ChildProcess.Start(
            new ProcessStartInfo(program[0], [.. program[1..], "consume", store.StorePath, "turns", "1000000", "30000"]),
            PythonPackage.Variables);
        run.WaitForLine(line => Number(line) >= next + least);
        run.KillAndWait();
        int[] numbers = [.. run.Lines.Skip(1).Where(line => line.Contains(' ', StringComparison.Ordinal)).Select(Number)];
        Assert.True(numbers[0] == next || numbers[0] == next - 1, $"seed={seed}: begins with {numbers[0]}, expected {next}");
        Assert.Equal(Enumerable.Range(numbers[0], numbers.Length), numbers);
        return numbers[^1];
    }

    private static int ConsumeHere(MappedFileQueue queue, int next, int least)
    {
        using MappedFileConsumer consumer = queue.OpenConsumer("turns");
        int last = next - 1;
        for (int i = 0; i < least; i++)
        {
            Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message, TimeSpan.FromSeconds(30)));
            int number = Number(Encoding.UTF8.GetString(message));
            Assert.True(number == last + 1 || (i == 0 && number == last), $"{number} after {last}");
            last = number;
            consumer.Commit();
        }

        return last;
    }

    /// <summary>-1 for a line that is no message.</summary>
    private static int Number(string line) =>
        int.TryParse(line.Split(' ')[0], NumberStyles.None, CultureInfo.InvariantCulture, out int number) ? number : -1;
}
