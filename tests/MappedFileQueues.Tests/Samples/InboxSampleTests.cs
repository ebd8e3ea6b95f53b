using System.Globalization;
using Microsoft.Data.Sqlite;

namespace MappedFileQueues.Tests.Samples;

/// <summary>
/// The worker of inbox-sqlite.cs is killed again and again, while it starts and while it works: the database holds the effect of
/// each payment once.
/// </summary>
public sealed class InboxSampleTests : IDisposable
{
    private const int AccountCount = 16;

    /// <summary>What waits when a worker starts, in bytes of the log: more than it handles before it is killed.</summary>
    private const int Backlog = 256 * 1024;

    private readonly TempStore _folder = new(createStoreFolder: true);

    public void Dispose() => _folder.Dispose();

    /// <summary>MFQ_INBOX_KILLS is the number of kills: 1,000 take four to nine minutes.</summary>
    [Fact]
    [Trait("Category", "Slow")]
    [Trait("Category", "Laboratory")]
    public void Kill_AnyTime_EachPaymentIsBookedOnce()
    {
        int kills = int.Parse(Environment.GetEnvironmentVariable("MFQ_INBOX_KILLS") ?? "40", CultureInfo.InvariantCulture);
        string program = BuiltSample.Of("inbox-sqlite");
        int seed = Random.Shared.Next();
        TestContext.Current.TestOutputHelper?.WriteLine($"seed={seed}");
        Random random = new(seed);
        using MappedFileQueue<Payment> queue = new(new MappedFileQueueOptions { StorePath = _folder.PathOf("payments") });
        long[] expected = new long[AccountCount];
        int number = 0;
        int deathsAtWork = 0;
        for (int kill = 0; kill < kills; kill++)
        {
            long before = InboxOf(queue);
            while (Produce(queue, expected, number++) - before < Backlog)
            {
            }

            long last = queue.Flush();
            using ChildProcess worker = ChildProcess.Start(program, ["work", _folder.StorePath]);
            // One death in four is in the start, while the database and the queue are half open.
            bool isInStart = kill % 4 == 3;
            if (!isInStart)
                worker.WaitForLine(line => line == "working");
            // Every other death at work is behind a first commit, however slow the disk is.
            if (kill % 4 == 0)
                Eventually.True(() => InboxOf(queue) > before, "it works");
            Thread.Sleep(random.Next(isInStart ? 250 : 60));
            worker.KillAndWait();
            Assert.Equal("", worker.ErrorText);
            deathsAtWork += InboxOf(queue) is var after && after > before && after < last ? 1 : 0;
        }

        TestContext.Current.TestOutputHelper?.WriteLine($"kills={kills}, at work={deathsAtWork}, payments={number}");
        Assert.True(deathsAtWork > kills / 10, $"Too few deaths at work: {deathsAtWork}.");
        long end = queue.Flush();
        using (ChildProcess survivor = ChildProcess.Start(program, ["work", _folder.StorePath]))
        {
            Eventually.Equal(end, () => InboxOf(queue));
            survivor.KillAndWait();
        }

        Assert.Equal(expected, Balances());
    }

    private static long InboxOf(MappedFileQueue<Payment> queue) =>
        queue.GetInfo().Consumers.SingleOrDefault()?.Offset ?? 0;

    private static long Produce(MappedFileQueue<Payment> queue, long[] expected, int number)
    {
        Payment payment = new(number % AccountCount, number);
        expected[payment.Account] += payment.Amount;
        return queue.Producer.Produce(payment);
    }

    private long[] Balances()
    {
        using SqliteConnection database = new($"Data Source={_folder.PathOf("accounts.db")};Pooling=False");
        database.Open();
        using SqliteCommand command = database.CreateCommand();
        command.CommandText = "SELECT balance FROM accounts ORDER BY id";
        using SqliteDataReader rows = command.ExecuteReader();
        List<long> balances = [];
        while (rows.Read())
            balances.Add(rows.GetInt64(0));
        return [.. balances];
    }

    private readonly record struct Payment(long Account, long Amount);
}
