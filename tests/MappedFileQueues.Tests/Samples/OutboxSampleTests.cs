using Microsoft.Data.Sqlite;

namespace MappedFileQueues.Tests.Samples;

/// <summary>
/// The relay of outbox-sqlite.cs is killed again and again while an application writes rows, and gets rows once more that it had
/// moved already: the queue holds each row once, in the order of the ids.
/// </summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class OutboxSampleTests : IDisposable
{
    private const int Kills = 20;
    private const int RowsBeforeKill = 300;

    private readonly TempStore _folder = new(createStoreFolder: true);
    private string _program = "";

    public void Dispose() => _folder.Dispose();

    [Fact]
    public void Kill_AnyTime_EachRowIsInTheQueueOnce()
    {
        _program = BuiltSample.Of("outbox-sqlite");
        int seed = Random.Shared.Next();
        TestContext.Current.TestOutputHelper?.WriteLine($"seed={seed}");
        Random random = new(seed);
        // The first relay makes the tables.
        RunRelayUntilTheOutboxIsEmpty();
        long last = 0;
        for (int kill = 0; kill < Kills; kill++)
        {
            AddRows(last + 1, last += RowsBeforeKill);
            using ChildProcess relay = ChildProcess.Start(_program, ["relay", _folder.StorePath]);
            relay.WaitForLine(line => line == "working");
            Thread.Sleep(random.Next(60));
            relay.KillAndWait();
            Assert.Equal("", relay.ErrorText);
        }

        RunRelayUntilTheOutboxIsEmpty();
        Assert.Equal(Ids(last), Messages());

        // A backup of the database is put back, with rows that were moved since.
        AddRows(1, last);
        RunRelayUntilTheOutboxIsEmpty();
        Assert.Equal(Ids(last), Messages());

        AddRows(last + 1, last += 1);
        RunRelayUntilTheOutboxIsEmpty();
        Assert.Equal(Ids(last), Messages());
    }

    private static IEnumerable<long> Ids(long last) => Enumerable.Range(1, (int)last).Select(id => (long)id);

    private void RunRelayUntilTheOutboxIsEmpty()
    {
        using ChildProcess relay = ChildProcess.Start(_program, ["relay", _folder.StorePath]);
        relay.WaitForLine(line => line == "working");
        using SqliteConnection database = OpenDatabase();
        using SqliteCommand count = new("SELECT count(*) FROM outbox", database);
        Eventually.Equal(0L, count.ExecuteScalar);
        relay.KillAndWait();
    }

    private void AddRows(long first, long last)
    {
        using SqliteConnection database = OpenDatabase();
        using SqliteTransaction transaction = database.BeginTransaction();
        using SqliteCommand insert = new("INSERT INTO outbox (id, amount) VALUES ($id, 0)", database, transaction);
        SqliteParameter id = insert.Parameters.Add("$id", SqliteType.Integer);
        for (long row = first; row <= last; row++)
        {
            id.Value = row;
            insert.ExecuteNonQuery();
        }

        transaction.Commit();
    }

    private SqliteConnection OpenDatabase()
    {
        SqliteConnection database = new($"Data Source={_folder.PathOf("shop.db")};Pooling=False");
        database.Open();
        return database;
    }

    private List<long> Messages()
    {
        using MappedFileReader<Order> reader = MappedFileReader<Order>.Open(_folder.PathOf("orders"));
        List<long> ids = [];
        while (reader.TryRead(out Order order))
            ids.Add(order.Id);
        return ids;
    }

    private readonly record struct Order(long Id, long Amount);
}
