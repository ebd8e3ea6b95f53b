using System.Diagnostics;
using System.Text;

namespace MappedFileQueues.Tests.Interop;

/// <summary>The Python package over the vectors, and beside queues of this process and consumers in C.</summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class PythonReaderTests() : ReaderContract(followCount: 2000, roomCount: 1000)
{
    [Fact]
    public void Read_EveryVector_GivesWhatItSays() => CompareVectors(arguments => Start(arguments));

    /// <summary>Its producer is the C library's.</summary>
    [Fact]
    public void Attach_EveryVector_GivesWhatItSays() => CompareAttaching(arguments => StartProducer(arguments));

    [Fact]
    public void Consume_InTurns_EachContinuesWhereTheOtherCommitted()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        for (int i = 0; i < 100; i++)
            queue.Producer.Produce(InteropStore.Message(i));
        Assert.Equal(Enumerable.Range(0, 40).Select(InteropStore.Text), Consume(store, "Workers", 40));
        using (MappedFileConsumer consumer = queue.OpenConsumer("Workers"))
        {
            for (int i = 40; i < 60; i++)
            {
                Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message));
                Assert.Equal(InteropStore.Text(i), Encoding.UTF8.GetString(message));
                consumer.Commit();
            }
        }

        using (ChildProcess inC = CLibrary.Start(CLibrary.Fast, "consume", store.StorePath, "workers", "20", WaitMs))
        {
            inC.ExpectExit();
            Assert.Equal(Enumerable.Range(60, 20).Select(InteropStore.Text), inC.Lines.Skip(1).SkipLast(1));
        }

        Assert.Equal(Enumerable.Range(80, 20).Select(InteropStore.Text), Consume(store, "Workers", 20));
    }

    [Fact]
    public void Consume_AloneAfterAnOrderlyEnd_Works()
    {
        using var store = new TempStore();
        using (MappedFileQueue queue = InteropStore.Open(store))
        {
            for (int i = 0; i < 20; i++)
                queue.Producer.Produce(InteropStore.Message(i));
        }

        Assert.Equal(Enumerable.Range(0, 10).Select(InteropStore.Text), Consume(store, "", 10));
        Assert.Equal(Enumerable.Range(10, 10).Select(InteropStore.Text), Consume(store, "", 10));
    }

    /// <summary>Prints what is there as lines, as its help says.</summary>
    [Fact]
    public void Module_AStore_PrintsItsMessages()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        queue.Producer.Produce("one"u8);
        queue.Producer.Produce("two"u8);
        Vectors.SkipWithoutPython();
        var start = new ProcessStartInfo("python3", ["-m", "mappedfilequeues", store.StorePath, "--offsets"])
        {
            WorkingDirectory = PythonPackage.Folder,
        };
        using ChildProcess run = ChildProcess.Start(start, PythonPackage.Variables);
        run.ExpectExit();
        Assert.Equal(["0: one", "16: two"], run.Lines);
    }

    /// <summary>Runs the tests of the package itself; those of batches need numpy, and skip themselves.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void UnitTests_OfThePackage_Pass(bool hasLibrary)
    {
        Vectors.SkipWithoutPython();
        // The system's own one may have numpy.
        string python = File.Exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3";
        var start = new ProcessStartInfo(python, ["-m", "unittest", "test_package"])
        {
            WorkingDirectory = PythonPackage.Folder,
        };
        using ChildProcess run = ChildProcess.Start(
            start, hasLibrary ? PythonPackage.VariablesWithLibrary : PythonPackage.Variables);
        run.ExpectExit();
    }

    private protected override ChildProcess Start(params IEnumerable<string> arguments) =>
        Start(PythonPackage.Variables, arguments);

    private protected override ChildProcess StartProducer(params IEnumerable<string> arguments) =>
        Start(PythonPackage.VariablesWithLibrary, arguments);

    private static ChildProcess Start(Dictionary<string, string> variables, IEnumerable<string> arguments)
    {
        Vectors.SkipWithoutPython();
        return ChildProcess.Start(
            new ProcessStartInfo(PythonPackage.Program[0], [PythonPackage.Program[1], .. arguments]), variables);
    }
}
