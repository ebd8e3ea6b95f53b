using System.Runtime.InteropServices;
using MappedFileQueues.Bench.Queues;
using Microsoft.Data.Sqlite;

namespace MappedFileQueues.Bench.Peers;

/// <summary>
/// A SQLite table as a queue, in WAL mode: 1,000 rows a transaction, statements prepared once, one connection that appends and
/// one that reads by 1,000 rows and then stores its position, which is its commit. A reader that finds nothing asks again.
/// </summary>
internal sealed class SqliteQueue : BenchQueue
{
    private const string FileName = "queue.db";

    private readonly string _path;
    private readonly string _synchronous;
    private readonly List<SqliteConnection> _connections = [];
    private readonly SqliteCommand _begin;
    private readonly SqliteCommand _commit;
    private readonly SqliteCommand _insert;
    private readonly SqliteCommand _select;
    private readonly SqliteCommand _store;
    private readonly byte[] _body = new byte[Message64.Length];
    private readonly Lock _gate = new();
    private Message64 _message = Message64.Create();
    private long _position;

    /// <param name="path">The folder; made where it is not there.</param>
    /// <param name="isDurable">A transaction is on the disk when its commit returns: synchronous=FULL. Otherwise OFF.</param>
    public SqliteQueue(string path, bool isDurable = false)
    {
        _path = path;
        _synchronous = isDurable ? "FULL" : "OFF";
        Directory.CreateDirectory(path);
        SqliteConnection writer = Connect();
        Command(writer, "CREATE TABLE IF NOT EXISTS queue (id INTEGER PRIMARY KEY, body BLOB NOT NULL)").ExecuteNonQuery();
        Command(writer, "CREATE TABLE IF NOT EXISTS position (name TEXT PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID")
            .ExecuteNonQuery();
        Command(writer, "INSERT OR IGNORE INTO position VALUES ('reader', 0)").ExecuteNonQuery();
        _begin = Prepared(writer, "BEGIN IMMEDIATE");
        _commit = Prepared(writer, "COMMIT");
        _insert = Insert(writer, _body);
        SqliteConnection reader = Connect();
        _select = Prepared(reader, "SELECT id, body FROM queue WHERE id > $after ORDER BY id LIMIT $count", "$after", "$count");
        _store = Prepared(reader, "UPDATE position SET id = $id WHERE name = 'reader'", "$id");
    }

    /// <summary>A table has nothing to prepare.</summary>
    public override void Prepare(long bytes)
    {
    }

    public override void SeekToStart() => _position = 0;

    public override void Dispose()
    {
        foreach (SqliteConnection connection in _connections)
            connection.Dispose();
    }

    /// <summary>
    /// What one thread appends with: a connection of its own, a row a transaction. It waits for the others inside SQLite.
    /// </summary>
    public Func<int, Task> NewCaller()
    {
        byte[] body = new byte[Message64.Length];
        SqliteCommand insert = Insert(Connect(), body);
        return count =>
        {
            Message64 message = Message64.Create();
            for (int i = 0; i < count; i++)
                Append(insert, body, ref message, i);
            return Task.CompletedTask;
        };
    }

    /// <summary>What one thread appends with: the connection of all, after a lock, a row a transaction.</summary>
    public Func<int, Task> NewLockedCaller() => count =>
    {
        Message64 message = Message64.Create();
        for (int i = 0; i < count; i++)
        {
            lock (_gate)
                Append(_insert, _body, ref message, i);
        }

        return Task.CompletedTask;
    };

    protected override void AppendChunk(long from, int count)
    {
        _begin.ExecuteNonQuery();
        for (int i = 0; i < count; i++)
            Append(_insert, _body, ref _message, from + i);
        _commit.ExecuteNonQuery();
    }

    protected override ulong ReadChunk(int count)
    {
        ulong sum = 0;
        while (count > 0)
        {
            int read = ReadSome(count, ref sum);
            if (read == 0)
                Thread.Yield();
            count -= read;
        }

        return sum;
    }

    private static void Append(SqliteCommand insert, byte[] body, ref Message64 message, long number)
    {
        message.Number = (ulong)number;
        MemoryMarshal.Write(body, in message);
        insert.ExecuteNonQuery();
    }

    private int ReadSome(int count, ref ulong sum)
    {
        _select.Parameters[0].Value = _position;
        _select.Parameters[1].Value = count;
        int read = 0;
        using (SqliteDataReader rows = _select.ExecuteReader())
        {
            for (; rows.Read(); read++)
            {
                _position = rows.GetInt64(0);

                // GetBytes opens each value as a stream.
                sum += MemoryMarshal.AsRef<Message64>(rows.GetFieldValue<byte[]>(1)).Sum();
            }
        }

        if (read > 0)
        {
            _store.Parameters[0].Value = _position;
            _store.ExecuteNonQuery();
        }

        return read;
    }

    private SqliteConnection Connect()
    {
        SqliteConnection connection = new(
            new SqliteConnectionStringBuilder { DataSource = Path.Combine(_path, FileName), Pooling = false }.ToString());
        lock (_connections)
            _connections.Add(connection);
        connection.Open();

        // Waits for the lock in SQLite: the retries of the .NET library come 150 ms apart.
        Command(connection, "PRAGMA busy_timeout=60000").ExecuteNonQuery();
        Command(connection, "PRAGMA journal_mode=WAL").ExecuteNonQuery();
        Command(connection, $"PRAGMA synchronous={_synchronous}").ExecuteNonQuery();
        return connection;
    }

    private static SqliteCommand Insert(SqliteConnection connection, byte[] body)
    {
        SqliteCommand insert = Prepared(connection, "INSERT INTO queue (body) VALUES ($body)", "$body");
        insert.Parameters[0].Value = body;
        return insert;
    }

    private static SqliteCommand Prepared(SqliteConnection connection, string text, params string[] parameters)
    {
        SqliteCommand command = Command(connection, text);
        foreach (string parameter in parameters)
            command.Parameters.AddWithValue(parameter, 0L);
        command.Prepare();
        return command;
    }

    private static SqliteCommand Command(SqliteConnection connection, string text)
    {
        SqliteCommand command = connection.CreateCommand();
        command.CommandText = text;
        return command;
    }
}
