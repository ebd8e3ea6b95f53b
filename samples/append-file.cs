// A file that many threads append to, and a log on top of it.
// Run it with: dotnet run samples/append-file.cs
#:project ../src/MappedFileQueues.Files/MappedFileQueues.Files.csproj
#:project ../src/MappedFileQueues.Logging/MappedFileQueues.Logging.csproj
#:package Microsoft.Extensions.Logging
using MappedFileQueues.Files;
using MappedFileQueues.Hosting;
using Microsoft.Extensions.Logging;

const int Count = 1_000;
string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    string path = Path.Combine(folder, "events.txt");
    await using (var file = new AppendFileStream(path, new AppendFileOptions { RollLength = 1L << 30, RetainedFileCount = 10 }))
    {
        Parallel.For(0, Count, _ => file.Write("one line, in one piece\n"u8));   // from any thread; waits only when the disk lags
        file.Flush(durable: true);                                               // from here on a power loss takes none of them
    }

    string log = Path.Combine(folder, "app.log");
    using (ILoggerFactory factory = LoggerFactory.Create(logging => logging.AddMappedFile(log)))
        factory.CreateLogger("Sample").LogInformation("{Count} lines in {Path}", Count, path);

    Console.Write(File.ReadAllText(log));
    int lines = File.ReadLines(path).Count();
    Console.WriteLine($"{lines} lines");
    return lines == Count ? 0 : 1;
}
finally
{
    Directory.Delete(folder, recursive: true);
}
