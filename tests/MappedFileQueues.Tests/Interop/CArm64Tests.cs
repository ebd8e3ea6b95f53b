using System.Diagnostics;
using System.Text;

namespace MappedFileQueues.Tests.Interop;

/// <summary>
/// The C library as arm64 code under QEMU, over the vectors and beside queues of this process: instructions, layouts and calls of
/// the system. QEMU keeps the order of accesses of x64, and has no membarrier, so producers fence for themselves.
/// </summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class CArm64Tests() : ReaderContract(followCount: 500, roomCount: 200)
{
    [Fact]
    public void Read_EveryVector_GivesWhatItSays() => CompareVectors(StartUnderQemu);

    [Fact]
    public void Crc_TableAndInstruction_AreTheSame()
    {
        using ChildProcess run = StartUnderQemu("crc");
        run.ExpectExit();
        Assert.Equal("same, check=e3069283", run.Lines[^1]);
    }

    [Theory]
    [InlineData("exclusive")]
    [InlineData("shared")]
    [InlineData("shared-group")]
    public void Produce_BesideAConsumer_EachMessageComesInOrder(string mode)
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using MappedFileConsumer consumer = queue.OpenConsumer("c");
        using ChildProcess producer = StartUnderQemu("produce", store.StorePath, mode, "message", "0", "300");
        for (int i = 0; i < 300; i++)
        {
            Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message, TimeSpan.FromSeconds(30)));
            Assert.StartsWith($"message {i} ", Encoding.UTF8.GetString(message) + " ", StringComparison.Ordinal);
            consumer.Commit();
        }

        producer.ExpectExit();
    }

    private protected override ChildProcess Start(params IEnumerable<string> arguments) => StartUnderQemu(arguments);

    private static ChildProcess StartUnderQemu(params IEnumerable<string> arguments)
    {
        string program = CLibrary.Arm64;
        Assert.SkipUnless(InteropTools.Has("qemu-aarch64-static"), "qemu-aarch64-static is not installed");
        return ChildProcess.Start(new ProcessStartInfo("qemu-aarch64-static", [program, .. arguments]));
    }
}
