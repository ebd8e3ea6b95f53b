using System.Runtime.InteropServices;

namespace MappedFileQueues.Tests.Log.Reading;

/// <summary>
/// ConsumeBatch once span for ever at a message that only the slow path could read: it asked the slow path whether there was
/// one, was told yes, and went back to the fast path, which left it again.
/// </summary>
public sealed class ConsumeBatchTests
{
    private const int BatchLength = 64;

    /// <summary>
    /// A new store has blocks for a few hundred kibibytes, and no number of 72-byte frames ends there: one message lies across
    /// the bound of what the reader has seen allocated.
    /// </summary>
    [Fact]
    public void ConsumeBatch_FrameAcrossTheReadersBound_IsRead()
    {
        using TempStore folder = new();
        using MappedFileQueue<Eight> queue = new(new MappedFileQueueOptions { StorePath = folder.StorePath });

        AssertRoundsComeBack(queue, queue, rounds: 40);
    }

    [Theory]
    [InlineData(ChecksumMode.WriteOnly, ChecksumMode.WriteAndVerify)]
    [InlineData(ChecksumMode.WriteAndVerify, ChecksumMode.WriteOnly)]
    public void ConsumeBatch_OtherChecksumModeThanTheProducers_ReadsEveryMessage(ChecksumMode written, ChecksumMode read)
    {
        using TempStore folder = new();
        using MappedFileQueue<Eight> writer = new(new() { StorePath = folder.StorePath, Checksum = written });
        using MappedFileQueue<Eight> reader = new(new() { StorePath = folder.StorePath, Checksum = read });

        AssertRoundsComeBack(writer, reader, rounds: 2);
    }

    /// <summary>Appends and reads in turn, so that the reader is where the producer stops.</summary>
    private static void AssertRoundsComeBack(MappedFileQueue<Eight> writer, MappedFileQueue<Eight> reader, int rounds)
    {
        const int RoundLength = 1000;
        Task<List<long>> work = Task.Run(() =>
        {
            List<long> numbers = [];
            Eight[] batch = new Eight[BatchLength];
            for (int round = 0; round < rounds; round++)
            {
                IEnumerable<int> next = Enumerable.Range(round * RoundLength, RoundLength);
                writer.Producer.ProduceBatch([.. next.Select(number => new Eight { Number = number })]);
                for (int left = RoundLength; left > 0;)
                {
                    int count = reader.Consumer.ConsumeBatch(batch.AsSpan(0, Math.Min(batch.Length, left)));
                    numbers.AddRange(batch.AsSpan(0, count).ToArray().Select(message => message.Number));
                    reader.Consumer.Commit();
                    left -= count;
                }
            }

            return numbers;
        });

        Assert.True(work.Wait(Eventually.DefaultDeadline), "ConsumeBatch does not come back.");
        Assert.Equal(Enumerable.Range(0, rounds * RoundLength).Select(i => (long)i), work.Result);
    }

    /// <summary>Eight words: 72 bytes as a frame.</summary>
    [StructLayout(LayoutKind.Sequential, Size = 64)]
    private struct Eight
    {
        public long Number;
    }
}
