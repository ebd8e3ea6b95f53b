// A shipper: puts the lines of a growing file into a queue. Each message holds the position after its line, so the position and
// the line are stored in one step, and the last message says where to continue: a kill loses no line and repeats none.
// The program writes the file, starts itself as the shipper, kills it with SIGKILL again and again, and compares.
// Run it with: dotnet run samples/file-shipper.cs
#:project ../src/MappedFileQueues.Files/MappedFileQueues.Files.csproj
using System.Buffers.Binary;
using System.Diagnostics;
using System.Text;
using MappedFileQueues;
using MappedFileQueues.Files;

const int LineCount = 20_000;
const int Kills = 5;
if (args is ["ship", string filePath, string storePath])
    return Ship(filePath, storePath);

string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    string log = Path.Combine(folder, "app.log");
    string store = Path.Combine(folder, "shipped");
    using (var writer = new StreamWriter(log))
    {
        Process? shipper = null;
        for (int i = 0; i < LineCount; i++)
        {
            writer.Write($"line {i} {new string('x', i % 50)}\n");
            if (i % 1_000 == 0)
                Thread.Sleep(10);                            // the file grows while it is shipped
            if (i % (LineCount / (Kills + 1)) != 0)
                continue;
            writer.Flush();
            shipper?.Kill();                                 // kill -9, wherever it is
            shipper?.WaitForExit();
            shipper = StartThisProgram("ship", log, store);
            WaitForMessages(store, atLeast: i / 2);
        }

        writer.Write("end\n");
        writer.Flush();
        shipper!.WaitForExit();
    }

    return Compare(log, store) ? 0 : 1;
}
finally
{
    Directory.Delete(folder, recursive: true);
}

static int Ship(string file, string store)
{
    var options = new MappedFileQueueOptions { StorePath = store, ProducerMode = ProducerMode.Exclusive };
    using var queue = new MappedFileQueue(options);
    MappedFileProducer producer = queue.Producer;            // before the look: from here on no other shipper appends
    long position = 0;
    using (MappedFileReader last = queue.OpenReader(QueueStart.FromEnd(1)))
    {
        if (last.TryRead(out ReadOnlySpan<byte> message))
            position = BinaryPrimitives.ReadInt64LittleEndian(message);
    }

    using var lines = MappedFileLines.Open(file, new MappedFileLinesOptions { StartPosition = position, Follow = true });
    Span<byte> next = stackalloc byte[sizeof(long)];
    while (lines.TryRead(out ReadOnlySpan<byte> line))
    {
        BinaryPrimitives.WriteInt64LittleEndian(next, lines.Position);
        producer.ProduceJoined(next, line);                  // one message: both are there, or neither
        if (line.SequenceEqual("end"u8))
            break;
    }

    return 0;
}

static void WaitForMessages(string store, int atLeast)
{
    while (!File.Exists(Path.Combine(store, "queue.meta"))
        || StoreInspector.Inspect(store, countsMessages: true).MessageCount < Math.Max(1, atLeast))
        Thread.Sleep(1);
}

static bool Compare(string log, string store)
{
    using MappedFileReader reader = MappedFileReader.Open(store);
    int shipped = 0;
    foreach (string line in File.ReadLines(log))
    {
        if (!reader.TryRead(out ReadOnlySpan<byte> message) || Encoding.UTF8.GetString(message[sizeof(long)..]) != line)
        {
            Console.WriteLine($"wrong after {shipped} lines");
            return false;
        }

        shipped++;
    }

    bool isAll = !reader.TryRead(out _);
    Console.WriteLine($"{shipped} lines shipped once each, {Kills} kills");
    return isAll && shipped == LineCount + 1;
}

static Process StartThisProgram(params string[] arguments)
{
    string program = Environment.ProcessPath!;
    string[] self = Path.GetFileNameWithoutExtension(program) == "dotnet" ? ["exec", Environment.GetCommandLineArgs()[0]] : [];
    return Process.Start(new ProcessStartInfo(program, [.. self, .. arguments]))!;
}
