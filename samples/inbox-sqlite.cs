// An inbox: the effect of each message is in a SQLite database exactly once, although the worker is killed at any moment. The
// offset of the last message is stored in the same transaction as the effects, and what is not above it is skipped.
// Run it with: dotnet run samples/inbox-sqlite.cs
#:project ../src/MappedFileQueues/MappedFileQueues.csproj
#:package Microsoft.Data.Sqlite
using System.Diagnostics;
using MappedFileQueues;
using Microsoft.Data.Sqlite;

const int Count = 20_000;
const int Kills = 10;
const int AccountCount = 16;
if (args is ["work", string workerFolder])
    return Work(workerFolder);

string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    using MappedFileQueue<Payment> queue = OpenQueue(folder);
    using SqliteConnection database = OpenDatabase(folder);
    long sum = 0;
    for (int i = 0; i < Count; i++)
        sum += Produce(queue, new Payment(i % AccountCount, i));
    long last = queue.Flush();
    for (int kill = 0; kill < Kills; kill++)
    {
        using Process worker = StartThisProgram("work", folder);
        worker.StandardOutput.ReadLine();             // it works
        Thread.Sleep(Random.Shared.Next(20));
        worker.Kill();                                // SIGKILL
        worker.WaitForExit();
    }

    using Process survivor = StartThisProgram("work", folder);
    while (queue.GetInfo().Consumers.Single().Offset < last && !survivor.HasExited)
        Thread.Sleep(10);
    survivor.Kill();
    survivor.WaitForExit();
    long booked = Execute(database, "SELECT sum(balance) FROM accounts");
    Console.WriteLine($"{Count} payments, {Kills} kills: {sum} paid, {booked} booked");
    return sum == booked ? 0 : 1;
}
finally
{
    Directory.Delete(folder, recursive: true);
}

static long Produce(MappedFileQueue<Payment> queue, Payment payment)
{
    queue.Producer.Produce(payment);
    return payment.Amount;
}

static int Work(string folder)
{
    using MappedFileQueue<Payment> queue = OpenQueue(folder);
    using SqliteConnection database = OpenDatabase(folder);
    // Only what is on disk: the offset of a message that a power loss takes is used again, and would be skipped then.
    using MappedFileConsumer<Payment> consumer = queue.OpenConsumer("inbox", new ConsumerOptions { DurableOnly = true });
    Console.WriteLine("working");
    while (true)
    {
        consumer.Consume(out _);                      // waits; the message stays the next one until Advance
        using SqliteTransaction transaction = database.BeginTransaction();
        long done = Execute(database, "SELECT offset FROM inbox");
        for (int i = 0; i < 100 && consumer.TryConsume(out Payment payment); i++)
        {
            if (consumer.MessageOffset > done)
                Execute(database, "UPDATE accounts SET balance = balance + $1 WHERE id = $2", payment.Amount, payment.Account);
            done = Math.Max(done, consumer.MessageOffset);
            consumer.Advance();
        }

        Execute(database, "UPDATE inbox SET offset = $1", done);
        transaction.Commit();                         // the effects and the offset, or neither
        consumer.Commit();                            // only saves work: what comes again is skipped
    }
}

static MappedFileQueue<Payment> OpenQueue(string folder) => new(new MappedFileQueueOptions
{
    StorePath = Path.Combine(folder, "payments"),
    FlushInterval = TimeSpan.FromMilliseconds(10),
    LockTimeout = TimeSpan.FromSeconds(10),           // the name of a worker that was killed is free a moment later
});

static SqliteConnection OpenDatabase(string folder)
{
    SqliteConnection database = new($"Data Source={Path.Combine(folder, "accounts.db")}");
    database.Open();
    Execute(database, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");   // a commit survives a power loss
    Execute(database, "CREATE TABLE IF NOT EXISTS inbox (id INTEGER PRIMARY KEY, offset INTEGER NOT NULL)");
    Execute(database, "INSERT OR IGNORE INTO inbox VALUES (1, -1)");
    Execute(database, "CREATE TABLE IF NOT EXISTS accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)");
    for (int account = 0; account < AccountCount; account++)
        Execute(database, "INSERT OR IGNORE INTO accounts VALUES ($1, 0)", account);
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

internal readonly record struct Payment(long Account, long Amount);
