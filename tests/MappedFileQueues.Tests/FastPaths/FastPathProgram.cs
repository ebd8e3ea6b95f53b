using System.Diagnostics;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;

namespace MappedFileQueues.Tests.FastPaths;

/// <summary>
/// A user's loops over the optimised core, in a process of its own that lists what the runtime made of them. The runtime is told
/// to leave out what differs from machine to machine and from run to run: profiles and 512-bit registers.
/// </summary>
internal static class FastPathProgram
{
    private const string Source = """
        using System;
        using System.IO;
        using System.Runtime.CompilerServices;
        using System.Threading;
        using MappedFileQueues;

        public struct Message { public ulong A, B, C, D, E, F, G, H; }

        public static class Loops
        {
            private const int Rounds = 30;
            private const int Calls = 2_000;

            private delegate long ProduceStruct(MappedFileProducer<Message> producer, ref Message message);
            private delegate long ProduceBytes(MappedFileProducer producer, ReadOnlySpan<byte> message);

            public static void Main(string[] arguments)
            {
                string folder = arguments[0];
                RunStructs(Path.Combine(folder, "structs-exclusive"), ProducerMode.Exclusive, Produce_Exclusive);
                RunStructs(Path.Combine(folder, "structs-shared"), ProducerMode.Shared, Produce_Shared);
                RunBytes(Path.Combine(folder, "bytes-exclusive"), ProducerMode.Exclusive, ProduceBytes_Exclusive);
                RunBytes(Path.Combine(folder, "bytes-shared"), ProducerMode.Shared, ProduceBytes_Shared);
                File.WriteAllText(Path.Combine(folder, "done"), "");
            }

            [MethodImpl(MethodImplOptions.NoInlining)]
            private static long Produce_Exclusive(MappedFileProducer<Message> producer, ref Message message) =>
                producer.Produce(ref message);

            [MethodImpl(MethodImplOptions.NoInlining)]
            private static long Produce_Shared(MappedFileProducer<Message> producer, ref Message message) =>
                producer.Produce(ref message);

            [MethodImpl(MethodImplOptions.NoInlining)]
            private static void Consume_Commit(MappedFileConsumer<Message> consumer, out Message message)
            {
                consumer.Consume(out message);
                consumer.Commit();
            }

            [MethodImpl(MethodImplOptions.NoInlining)]
            private static long ProduceBytes_Exclusive(MappedFileProducer producer, ReadOnlySpan<byte> message) =>
                producer.Produce(message);

            [MethodImpl(MethodImplOptions.NoInlining)]
            private static long ProduceBytes_Shared(MappedFileProducer producer, ReadOnlySpan<byte> message) =>
                producer.Produce(message);

            [MethodImpl(MethodImplOptions.NoInlining)]
            private static byte ConsumeBytes_Commit(MappedFileConsumer consumer)
            {
                byte first = consumer.Consume()[0];
                consumer.Commit();
                return first;
            }

            [MethodImpl(MethodImplOptions.NoInlining)]
            private static byte TryReadBytes(MappedFileReader reader)
            {
                reader.TryRead(out ReadOnlySpan<byte> message);
                return message[0];
            }

            private static MappedFileQueueOptions Options(string path, ProducerMode mode) =>
                new() { StorePath = path, ProducerMode = mode, Durability = DurabilityLevel.PageCache };

            private static void RunStructs(string path, ProducerMode mode, ProduceStruct produce)
            {
                using var queue = new MappedFileQueue<Message>(Options(path, mode));
                ulong number = 0;
                for (int round = 0; round < Rounds; round++)
                {
                    for (int i = 0; i < Calls; i++)
                    {
                        var message = new Message { A = number + (ulong)i };
                        produce(queue.Producer, ref message);
                    }

                    for (int i = 0; i < Calls; i++)
                    {
                        Consume_Commit(queue.Consumer, out Message message);
                        if (message.A != number++)
                            throw new InvalidOperationException("A wrong message.");
                    }

                    Thread.Sleep(10);
                }
            }

            private static void RunBytes(string path, ProducerMode mode, ProduceBytes produce)
            {
                using var queue = new MappedFileQueue(Options(path, mode));
                using MappedFileReader reader = MappedFileReader.Open(path);
                byte[] message = new byte[64];
                for (int round = 0; round < Rounds; round++)
                {
                    for (int i = 0; i < Calls; i++)
                    {
                        message[0] = (byte)i;
                        produce(queue.Producer, message);
                    }

                    for (int i = 0; i < Calls; i++)
                    {
                        if (ConsumeBytes_Commit(queue.Consumer) != (byte)i || TryReadBytes(reader) != (byte)i)
                            throw new InvalidOperationException("A wrong message.");
                    }

                    Thread.Sleep(10);
                }
            }
        }
        """;

    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(5);

    private static readonly Dictionary<string, string> s_runtimeSettings = new()
    {
        ["DOTNET_TieredPGO"] = "0",
        ["DOTNET_TC_BackgroundWorkerTimeoutMs"] = "0",
        ["DOTNET_TC_CallCountingDelayMs"] = "0",
        ["DOTNET_PreferredVectorBitWidth"] = "256",
        ["DOTNET_EnableAVX512"] = "0",
        ["DOTNET_JitDisasm"] = "Produce* Consume* Append* Try* WriteClaimed Publish*",
    };

    /// <summary>Compiles and runs the loops; returns the runtime's listing.</summary>
    public static string List()
    {
        using var folder = new TempStore();
        string program = Path.Combine(folder.Root, "Loops.dll");
        string listing = Path.Combine(folder.Root, "listing.txt");
        string core = Path.Combine(folder.Root, "MappedFileQueues.dll");
        File.Copy(Repository.PathOf("src/MappedFileQueues/obj/Release/net10.0/MappedFileQueues.dll"), core);
        Compile(program, core);
        var start = new ProcessStartInfo("dotnet")
        {
            ArgumentList =
            {
                "exec", "--runtimeconfig", Path.ChangeExtension(Repository.TestPeerPath, ".runtimeconfig.json"),
                program, folder.Root,
            },
            RedirectStandardError = true,
        };
        foreach ((string name, string value) in s_runtimeSettings)
            start.Environment[name] = value;
        start.Environment["DOTNET_JitStdOutFile"] = listing;
        using Process process = Process.Start(start)!;
        Task<string> errors = process.StandardError.ReadToEndAsync();
        if (!process.WaitForExit(s_limit))
        {
            process.Kill();
            Assert.Fail($"The loops did not end within {s_limit}.");
        }

        // The runtime closes the listing at its end, while its other thread may still write there. That ends the process by a
        // signal (one run in some fifty: SIGABRT of the C library, or SIGSEGV). What was listed until then counts; the next run
        // tells what is missing.
        bool isListingTorn = process.ExitCode is 134 or 139 && File.Exists(Path.Combine(folder.Root, "done"));
        Assert.True(
            process.ExitCode == 0 || isListingTorn, $"The loops ended with exit code {process.ExitCode}: {errors.Result}");
        return File.ReadAllText(listing);
    }

    private static void Compile(string program, string core)
    {
        string framework = Path.GetDirectoryName(typeof(object).Assembly.Location)!;
        CSharpCompilation compilation = CSharpCompilation.Create(
            "Loops",
            [CSharpSyntaxTree.ParseText(Source)],
            [
                .. Directory.EnumerateFiles(framework, "System.*.dll").Select(path => MetadataReference.CreateFromFile(path)),
                MetadataReference.CreateFromFile(core),
            ],
            new CSharpCompilationOptions(OutputKind.ConsoleApplication, optimizationLevel: OptimizationLevel.Release));
        var result = compilation.Emit(program);
        Assert.True(result.Success, string.Join('\n', result.Diagnostics));
    }
}
