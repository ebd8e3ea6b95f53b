namespace MappedFileQueues.Tests.Bench;

/// <summary>
/// A figure counts only when what was read is what was written. `read_noverify` reads a store without looking at the checksums,
/// and PersistentChannel has none; so a byte that changes under them must show in the sum, and the run must end with exit code
/// 1 and say why.
/// </summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class BenchHonestyTests
{
    /// <summary>Where the last word of a message of 64 bytes begins.</summary>
    private const long LastWord = 56;

    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(2);

    /// <param name="arguments">The figure.</param>
    /// <param name="pattern">The files that it reads.</param>
    /// <param name="headerLength">What comes there before the first message.</param>
    [Theory]
    [InlineData("queues --only read_noverify --messages 2000000", "*.log", 8)]
    [InlineData("peers --only durable_read_persistentchannel --messages 500000 --repetitions 1 --no-warm-up", "0", 0)]
    public void ReadFigure_AByteChangesUnderIt_ExitsWithFailure(string arguments, string pattern, int headerLength)
    {
        // What is to be spoiled is there for about a second, in which this thread may not have its turn.
        const int Attempts = 5;
        for (int attempt = 1; ; attempt++)
        {
            using TempStore folder = new(createStoreFolder: true);
            using ChildProcess bench = ChildProcess.StartBench([.. arguments.Split(' '), "--dir", folder.StorePath]);
            while (!bench.HasExited)
            {
                SpoilFirstMessages(folder.StorePath, pattern, headerLength + LastWord);
                Thread.Yield();
            }

            if (bench.WaitForExit(s_deadline) == 0 && attempt < Attempts)
                continue;
            bench.ExpectExit(1, s_deadline);
            Assert.Contains("differ from those written", bench.ErrorText, StringComparison.Ordinal);
            return;
        }
    }

    /// <summary>Writes over the last word of every file's first message, once it is there.</summary>
    private static void SpoilFirstMessages(string folder, string pattern, long position)
    {
        try
        {
            foreach (string path in Directory.EnumerateFiles(folder, pattern, SearchOption.AllDirectories))
            {
                using FileStream file = new(path, FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite | FileShare.Delete);
                byte[] word = new byte[sizeof(long)];
                file.Position = position;
                if (file.Read(word) < word.Length || word.All(value => value == 0))
                    continue;
                file.Position = position;
                file.Write("spoiled!"u8);
            }
        }
        catch (Exception exception) when (exception is IOException or UnauthorizedAccessException)
        {
            // The store is just being made or removed.
        }
    }
}
