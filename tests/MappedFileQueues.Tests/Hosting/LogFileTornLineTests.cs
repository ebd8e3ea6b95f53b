using System.Text;
using System.Text.Json;
using MappedFileQueues.Hosting;
using MappedFileQueues.Tests.Files;
using MappedFileQueues.Tests.Platform;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Tests.Hosting;

/// <summary>
/// A killed process and a full disk leave a line of which the end is missing. The next entry was written right after it, and no
/// parser took that line: the first thing that a program had to say after a crash was lost.
/// </summary>
public sealed class LogFileTornLineTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);
    private readonly ManualTime _time = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Log_FileEndsInMidLine_NextEntryIsALineOfItsOwn()
    {
        string path = _temp.PathOf("app.log");
        for (int round = 0; round < 3; round++)
        {
            using (MappedFileLoggerProvider provider = Open(path))
            {
                provider.CreateLogger("C").LogInformation("first of {Round}", round);
                provider.CreateLogger("C").LogInformation("second of {Round}", round);
            }

            byte[] bytes = File.ReadAllBytes(path);
            File.WriteAllBytes(path, bytes[..^20]);
        }

        string[] lines = File.ReadAllLines(path);
        Assert.Equal(6, lines.Length);
        Assert.Equal([0, 1, 2], lines.Where((_, i) => i % 2 == 0).Select(line => JsonDocument.Parse(line).RootElement
            .GetProperty("values").GetProperty("Round").GetInt32()));
    }

    [Fact]
    public void Log_DiskIsFullForAWhile_EveryLineButTheTornOneCanBeRead()
    {
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root);
        string path = disk.PathOf("app.log");
        string ballast = disk.PathOf("ballast");
        File.WriteAllBytes(ballast, new byte[1 << 20]);
        string text = new('x', 777);
        using (MappedFileLoggerProvider provider = Open(path))
        {
            ILogger logger = provider.CreateLogger("C");
            while (provider.LostLineCount == 0)
            {
                logger.LogInformation("{Text}", text);
                provider.Flush();
            }

            File.Delete(ballast);
            _time.Advance(TimeSpan.FromMinutes(1));
            logger.LogInformation("again");
            provider.Flush();
        }

        string[] lines = Encoding.UTF8.GetString(File.ReadAllBytes(path)).Split('\n', StringSplitOptions.RemoveEmptyEntries);
        Assert.InRange(lines.Count(static line => !CanBeParsed(line)), 0, 1);
        Assert.False(CanBeParsed(lines[^2]), "The disk was full in the middle of a line.");
        Assert.Equal("again", JsonDocument.Parse(lines[^1]).RootElement.GetProperty("message").GetString());
    }

    private static bool CanBeParsed(string line)
    {
        try
        {
            JsonDocument.Parse(line).Dispose();
            return true;
        }
        catch (JsonException)
        {
            return false;
        }
    }

    private MappedFileLoggerProvider Open(string path) => new(new MappedFileLoggerOptions
    {
        Path = path,
        Format = LogLineFormat.Json,
        TimeProvider = _time,
        OnError = static _ => { },
    });
}
