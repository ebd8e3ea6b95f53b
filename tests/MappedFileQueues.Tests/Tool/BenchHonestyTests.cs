namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// A figure counts only when what was read is what was written. `read_noverify` reads a store without looking at the checksums;
/// so a byte that changes under it must show in the sum, and the run must end with exit code 1 and say why.
/// </summary>
[Trait("Category", "Slow")]
public sealed class BenchHonestyTests
{
    private const int HeaderLength = 8;

    /// <summary>The position of the last word of the first message of 64 bytes.</summary>
    private const long LastWord = HeaderLength + 56;

    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(2);

    [Fact]
    public void ReadFigure_AByteChangesUnderIt_ExitsWithFailure()
    {
        // What is to be spoiled is there for about a second, in which this thread may not have its turn.
        const int Attempts = 5;
        for (int attempt = 1; ; attempt++)
        {
            using TempStore folder = new(createStoreFolder: true);
            using ChildProcess bench = ChildProcess.StartBench(
                "--dir", folder.StorePath, "--only", "read_noverify", "--messages", "2000000");
            while (!bench.HasExited)
            {
                SpoilFirstMessages(folder.StorePath);
                Thread.Yield();
            }

            if (bench.WaitForExit(s_deadline) == 0 && attempt < Attempts)
                continue;
            bench.ExpectExit(1, s_deadline);
            Assert.Contains("differ from those written", bench.ErrorText, StringComparison.Ordinal);
            return;
        }
    }

    /// <summary>Writes over the last word of every store's first message, once it is published.</summary>
    private static void SpoilFirstMessages(string folder)
    {
        try
        {
            foreach (string path in Directory.EnumerateFiles(folder, "*.log", SearchOption.AllDirectories))
            {
                using FileStream file = new(path, FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite | FileShare.Delete);
                byte[] header = new byte[HeaderLength];
                if (file.Read(header) < HeaderLength || header.All(value => value == 0))
                    continue;
                file.Position = LastWord;
                file.Write("spoiled!"u8);
            }
        }
        catch (Exception exception) when (exception is IOException or UnauthorizedAccessException)
        {
            // The store is just being made or removed.
        }
    }
}
