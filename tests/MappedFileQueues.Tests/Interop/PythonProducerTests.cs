using System.Diagnostics;
using System.Globalization;
using System.Text;

namespace MappedFileQueues.Tests.Interop;

/// <summary>The producer of the Python package, which calls the C library, beside queues of this process.</summary>
[Trait("Category", "Slow")]
public sealed class PythonProducerTests
{
    [Theory]
    [InlineData("shared")]
    [InlineData("shared-group")]
    [InlineData("exclusive")]
    [InlineData("exclusive-flush")]
    public void Produce_BesideAConsumer_EachMessageComesInOrderWithItsHeaders(string mode)
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using MappedFileConsumer consumer = queue.OpenConsumer("c");
        const int count = 500;
        using ChildProcess producer = Start(
            PythonPackage.Program[1], "produce", store.StorePath, mode, "message", "0", $"{count}");
        for (int i = 0; i < count; i++)
        {
            Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message, TimeSpan.FromSeconds(30)));
            string text = string.Create(CultureInfo.InvariantCulture, $"message {i} {new string('.', i % 50)}!");
            Assert.Equal(text, Encoding.UTF8.GetString(message));
            Assert.Equal(i % 10 == 0 ? "message" : "", Encoding.UTF8.GetString(consumer.HeadersInPlace.Key));
            consumer.Commit();
        }

        producer.ExpectExit();
        Assert.Equal(Enumerable.Range(0, count).Select(i => $"{i}"), producer.Lines.Skip(1));
        if (mode != "shared" && mode != "exclusive")
            Assert.True(queue.ConfirmedOffset >= consumer.Offset, $"{queue.ConfirmedOffset} of {consumer.Offset}");
    }

    /// <summary>Each wrong call ends in an exception of Python, with the words of the library.</summary>
    [Fact]
    public void Produce_WhatCannotBe_RaisesTheErrorThatItsDocumentationNames()
    {
        const string script = """
            import sys
            import mappedfilequeues as mfq
            store = sys.argv[1]
            def refused(call, *arguments, **named):
                try:
                    call(*arguments, **named)
                    print("nothing was raised")
                except Exception as error:
                    print(type(error).__name__)
            refused(mfq.Producer, store + "-missing")
            refused(mfq.Producer, store, exclusive=True)
            refused(mfq.Producer, store, flush_timeout=0)
            with mfq.Producer(store) as producer:
                refused(producer.produce, bytes(1 << 20))
                refused(producer.produce, "text")
                refused(producer.produce, 5)
                refused(producer.produce, b"x", mfq.Headers(key=bytes(2000)))
                refused(producer.produce, b"x", mfq.Headers(producer=(1, 2)))
                refused(producer.produce, b"x", mfq.Headers(trace_id=bytes(16)))
                trace = mfq.Headers(time=7, trace_id=bytes(range(16)), span_id=bytes(range(8)), trace_flags=1, trace_state="a=b")
                print(producer.produce(memoryview(bytearray(b"one")), trace), producer.produce(b""))
            producer.close()
            refused(producer.produce, b"x")
            refused(producer.flush)
            with mfq.Reader(store) as reader:
                first, second = reader
                print(bytes(first), first.headers == trace, bytes(second), second.headers)
            """;
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        _ = queue.Producer;
        using ChildProcess run = Start("-c", script, store.StorePath);
        run.ExpectExit();
        Assert.Equal(
            [
                "NotFoundError", "InUseError", "ValueError", "ValueError", "TypeError", "TypeError", "ValueError", "ValueError",
                "ValueError", "0 72", "ValueError", "ValueError", "b'one' True b'' None",
            ],
            run.Lines);
    }

    private static ChildProcess Start(params string[] arguments)
    {
        Vectors.SkipWithoutPython();
        return ChildProcess.Start(
            new ProcessStartInfo("python3", arguments) { WorkingDirectory = PythonPackage.Folder },
            PythonPackage.VariablesWithLibrary);
    }
}
