using System.Globalization;
using System.Text;

namespace MappedFileQueues.Tests.Interop;

/// <summary>The producer of the Python package, which calls the C library, beside queues of this process.</summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
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
        using ChildProcess producer = PythonPackage.Start(
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
            import os, sys
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
            for call in (reader.read, reader.wait, lambda: reader.seek(0), reader.stored_offset, reader.consumers):
                refused(call)
            for kind in (mfq.Reader, mfq.Consumer, mfq.Producer):
                refused(kind, None)
            refused(mfq.Consumer, store, None)
            refused(mfq.Consumer, store, b"c")
            refused(mfq.Reader, store, 0.0)
            consumer = mfq.Consumer(store, "c")
            consumer.read()
            os.rename(store, store + "-gone")
            refused(consumer.flush)
            """;
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        _ = queue.Producer;
        using ChildProcess run = PythonPackage.Start("-c", script, store.StorePath);
        run.ExpectExit();
        Assert.Equal(
            [
                "NotFoundError", "InUseError", "ValueError", "ValueError", "TypeError", "TypeError", "ValueError", "ValueError",
                "ValueError", "0 72", "ValueError", "ValueError", "b'one' True b'' None",
                .. Enumerable.Repeat("ValueError", 5), .. Enumerable.Repeat("TypeError", 6), "DeletedError",
            ],
            run.Lines);
    }

    /// <summary>
    /// A child of fork has copies of the parent's objects, and drops them: at its end, or when they are collected. Closing them
    /// released the parent's locks, which are those of both. An Exclusive producer was admitted beside the parent's Shared one,
    /// its slot was given to others, and the name of its consumer was half free.
    /// </summary>
    [Fact]
    public void Fork_TheChildClosesItsCopies_TheParentKeepsItsLocks()
    {
        const string script = """
            import os, sys
            import mappedfilequeues as mfq
            store = sys.argv[1]
            producer, consumer, reader = mfq.Producer(store), mfq.Consumer(store, "c"), mfq.Reader(store)
            producer.produce(b"one")
            producer.flush()
            consumer.read()
            reader.read()
            child = os.fork()
            if child == 0:
                for call in (lambda: producer.produce(b"two"), producer.flush, consumer.commit, consumer.flush):
                    try:
                        call()
                        print("nothing was raised")
                    except ValueError as error:
                        print(error)
                for copy in (producer, consumer, reader):
                    copy.close()
                # What it opens itself works.
                with mfq.Producer(store) as own, mfq.Consumer(store, "d") as other:
                    own.produce(b"of the child")
                    other.read()
                    other.commit()
                sys.stdout.flush()
                os._exit(0)
            os.waitpid(child, 0)
            print("closed", flush=True)
            sys.stdin.readline()
            print(producer.produce(b"three"), bytes(consumer.read()))
            consumer.commit()
            producer.close()
            consumer.close()
            for call in (consumer.commit, consumer.flush, consumer.committed):
                try:
                    call()
                    print("nothing was raised")
                except ValueError as error:
                    print(error)
            """;
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using MappedFileQueue other = new(new() { StorePath = store.StorePath, ProducerMode = ProducerMode.Exclusive });
        using ChildProcess run = PythonPackage.Start("-c", script, store.StorePath);
        run.WaitForLine("closed", TimeSpan.FromSeconds(60));
        Assert.Throws<QueueInUseException>(() => other.OpenProducer());
        Assert.Throws<QueueInUseException>(() => queue.OpenConsumer("c"));
        run.Input.WriteLine();
        run.ExpectExit();
        string[] refused =
        [
            .. Enumerable.Repeat("The producer is the parent's: open one after the fork.", 2),
            .. Enumerable.Repeat("The consumer is the parent's: open one after the fork.", 2),
        ];
        Assert.Equal([.. refused, "closed", "40 b'of the child'", .. Enumerable.Repeat("The consumer is closed.", 3)], run.Lines);
        using MappedFileConsumer after = queue.OpenConsumer("c");
        Assert.Equal(40, after.Offset);
        other.OpenProducer().Dispose();
    }

    /// <summary>As in C: a consumer's offset was called damaged, and the store in need of a recovery.</summary>
    [Fact]
    public void Open_TooFewDescriptors_RaisesTheErrorOfTheSystem()
    {
        const string script = """
            import os, resource, sys
            import mappedfilequeues as mfq
            store = sys.argv[1]
            with mfq.Consumer(store, "limits") as consumer:
                consumer.read()
                consumer.commit()
            first = os.dup(0)
            os.close(first)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            for kind in (mfq.Reader, lambda path: mfq.Consumer(path, "limits")):
                answers = []
                for more in range(20):
                    resource.setrlimit(resource.RLIMIT_NOFILE, (first + more, hard))
                    try:
                        kind(store).close()
                        answer = "ok"
                    except Exception as error:
                        answer = f"{type(error).__name__} {getattr(error, 'errno', '')}"
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                    next = os.dup(0)
                    os.close(next)
                    answers += [answer] if next == first else [answer, "a descriptor is left"]
                print(*sorted(set(answers)))
            """;
        using var store = new TempStore();
        using (MappedFileQueue queue = InteropStore.Open(store))
        {
            for (int i = 0; i < 10; i++)
                queue.Producer.Produce(InteropStore.Message(i));
            Run(store);
        }

        Run(store);

        static void Run(TempStore store)
        {
            using ChildProcess run = PythonPackage.Start("-c", script, store.StorePath);
            run.ExpectExit();
            Assert.Equal(["OSError 24 ok", "OSError 24 ok"], run.Lines);
        }
    }

    /// <summary>
    /// Who opened the handle decides, not who was first in the process that forked: a child's own consumer releases its name,
    /// though a child of the child, which neither closes nor starts anything, has copies. It did not, because the child's parent
    /// had opened a store before. The lock on the cursor's file was not ended by anybody.
    /// </summary>
    [Fact]
    public void Fork_TheChildOpensItsOwn_ClosingReleasesTheName()
    {
        const string script = """
            import os, subprocess, sys
            import mappedfilequeues as mfq
            store = sys.argv[1]
            kept = mfq.Consumer(store, "parent")
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                own, producer = mfq.Consumer(store, "child"), mfq.Producer(store)
                if os.fork() == 0:
                    os.close(writing)
                    os.read(reading, 1)
                    os._exit(0)
                own.close()
                producer.close()
                mfq.Consumer(store, "child").close()
                os._exit(0)
            print(os.waitpid(child, 0)[1])
            subprocess.run(["true"], check=True)
            try:
                mfq.Consumer(store, "parent")
            except mfq.InUseError:
                print("kept")
            kept.close()
            mfq.Consumer(store, "parent").close()
            mfq.Producer(store, exclusive=True).close()
            print("closed")
            """;
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using ChildProcess run = PythonPackage.Start("-c", script, store.StorePath);
        run.ExpectExit(deadline: TimeSpan.FromMinutes(1));
        Assert.Equal(["0", "kept", "closed"], run.Lines);
    }
}
