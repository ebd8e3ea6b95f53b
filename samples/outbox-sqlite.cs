// A transactional outbox: an application writes its change and the message about it in one transaction of SQLite; a relay moves
// the messages into the queue. The id of a row is the sequence of its message, so a relay that was killed can repeat rows: the
// queue takes each once.
// Run it with: dotnet run samples/outbox-sqlite.cs
#:project ../src/MappedFileQueues/MappedFileQueues.csproj
#:package Microsoft.Data.Sqlite
using System.Diagnostics;
using MappedFileQueues;
using Microsoft.Data.Sqlite;

const int Count = 2_000;
const int Kills = 10;
if (args is ["relay", string relayFolder])
    return Relay(relayFolder);

string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    using SqliteConnection database = OpenDatabase(folder);
    Task application = Task.Run(() => PlaceOrders(folder));
    for (int kill = 0; kill < Kills; kill++)
    {
        using Process relay = StartThisProgram("relay", folder);
        relay.StandardOutput.ReadLine();              // it works
        Thread.Sleep(Random.Shared.Next(20));
        relay.Kill();                                 // SIGKILL
        relay.WaitForExit();
    }

    application.Wait();
    using Process survivor = StartThisProgram("relay", folder);
    while (Execute(database, "SELECT count(*) FROM outbox") > 0 && !survivor.HasExited)
        Thread.Sleep(10);
    survivor.Kill();
    survivor.WaitForExit();

    using MappedFileReader<Order> reader = MappedFileReader<Order>.Open(Path.Combine(folder, "orders"));
    List<long> ids = [];
    while (reader.TryRead(out Order order))
        ids.Add(order.Id);
    Console.WriteLine($"{Count} orders, {Kills} kills: {ids.Count} messages, {ids.Distinct().Count()} different ones");
    return ids.SequenceEqual(Enumerable.Range(1, Count).Select(id => (long)id)) ? 0 : 1;
}
finally
{
    Directory.Delete(folder, recursive: true);
}

// What an application does: it knows nothing of the queue.
static void PlaceOrders(string folder)
{
    using SqliteConnection database = OpenDatabase(folder);
    for (int i = 0; i < Count; i++)
    {
        using SqliteTransaction transaction = database.BeginTransaction();
        Execute(database, "INSERT INTO orders (amount) VALUES ($1)", i);
        Execute(database, "INSERT INTO outbox (amount) VALUES ($1)", i);
        transaction.Commit();
    }
}

static int Relay(string folder)
{
    using SqliteConnection database = OpenDatabase(folder);
    using var queue = new MappedFileQueue<Order>(new MappedFileQueueOptions
    {
        StorePath = Path.Combine(folder, "orders"),
        LockTimeout = TimeSpan.FromSeconds(10),       // the id of a relay that was killed is free a moment later
    });
    using MappedFileIdempotentProducer<Order> producer = queue.OpenProducer("outbox");
    using SqliteCommand select = new("SELECT id, amount FROM outbox ORDER BY id LIMIT 100", database);
    Console.WriteLine("working");
    while (true)
    {
        long last = 0;
        using (SqliteDataReader rows = select.ExecuteReader())
        {
            while (rows.Read())
            {
                last = rows.GetInt64(0);              // SQLite has one writer at a time, so ids become visible in their order
                producer.TryProduce(new Order(last, rows.GetInt64(1)), (ulong)last);   // false: it is in the queue already
            }
        }

        if (last == 0)
            Thread.Sleep(1);
        queue.Flush();                                // a row goes when its message is on disk
        Execute(database, "DELETE FROM outbox WHERE id <= $1", last);
    }
}

static SqliteConnection OpenDatabase(string folder)
{
    SqliteConnection database = new($"Data Source={Path.Combine(folder, "shop.db")}");
    database.Open();
    Execute(database, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");   // a commit survives a power loss
    Execute(database, "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL)");
    // AUTOINCREMENT: no id is given twice, also when the table is empty.
    Execute(database, "CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, amount INTEGER NOT NULL)");
    return database;
}

static long Execute(SqliteConnection database, string sql, params long[] values)
{
    using SqliteCommand command = database.CreateCommand();
    command.CommandText = sql;
    for (int i = 0; i < values.Length; i++)
        command.Parameters.AddWithValue($"${i + 1}", values[i]);
    return command.ExecuteScalar() as long? ?? 0;
}

static Process StartThisProgram(params string[] arguments)
{
    string program = Environment.ProcessPath!;
    string[] self = Path.GetFileNameWithoutExtension(program) == "dotnet" ? ["exec", Environment.GetCommandLineArgs()[0]] : [];
    return Process.Start(new ProcessStartInfo(program, [.. self, .. arguments]) { RedirectStandardOutput = true })!;
}

internal readonly record struct Order(long Id, long Amount);
