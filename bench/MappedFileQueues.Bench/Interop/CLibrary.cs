using System.Runtime.InteropServices;
using MappedFileQueues.Bench.Processes;

namespace MappedFileQueues.Bench.Interop;

/// <summary>bench/interop.c with the C library, compiled into the run's directory and loaded by the children.</summary>
internal static unsafe partial class CLibrary
{
    private const string Name = "mfq-interop";
    private const string File = "libmfq.so.2";

    private static nint s_library;

    /// <summary>The bare loops.</summary>
    public static RawSides Raw { get; } = new(RawAppend, RawRead);

    /// <summary>Compiles it, once in a run.</summary>
    public static void Compile(BenchRun run)
    {
        string output = Path.Combine(run.Directory, File);
        if (Path.Exists(output))
            return;
        CCompiler.Compile(
            output,
            ["-std=gnu11", "-O3", "-march=native", "-shared", "-fPIC"],
            [
                "bench/interop.c", "interop/c/mfq.c", "interop/c/mfq_consume.c", "interop/c/mfq_produce.c",
                "interop/c/mfq_flush.c",
            ]);
    }

    /// <summary>Loads what <see cref="Compile"/> made.</summary>
    public static void Load(ChildContext context)
    {
        if (s_library != 0)
            return;
        s_library = NativeLibrary.Load(context.Path(File));
        NativeLibrary.SetDllImportResolver(typeof(CLibrary).Assembly, static (name, _, _) => name == Name ? s_library : 0);
    }

    /// <summary>Throws when a call has failed.</summary>
    public static void Check(string call, int status)
    {
        if (status != 0)
            throw new ToolException($"A call of the C library failed: call={call}, status={status}.");
    }

    [LibraryImport(Name, EntryPoint = "raw_append")]
    public static partial void RawAppend(byte* place, ref Message64 message, long count);

    [LibraryImport(Name, EntryPoint = "raw_read")]
    public static partial ulong RawRead(byte* place, long count);

    [LibraryImport(Name, EntryPoint = "c_append")]
    public static partial int Append(nint producer, ref Message64 message, long from, long count);

    [LibraryImport(Name, EntryPoint = "c_read")]
    public static partial ulong Read(nint consumer, long count);

    [LibraryImport(Name, EntryPoint = "c_answer")]
    public static partial ulong Answer(nint consumer, nint producer, ref Message64 message, long count);

    [LibraryImport(Name, EntryPoint = "mfq_producer_open", StringMarshalling = StringMarshalling.Utf8)]
    public static partial int OpenProducer(string path, in ProducerOptions options, out nint producer, nint error);

    [LibraryImport(Name, EntryPoint = "mfq_producer_prepare")]
    public static partial int Prepare(nint producer, long length, nint error);

    [LibraryImport(Name, EntryPoint = "mfq_producer_close")]
    public static partial void CloseProducer(nint producer);

    [LibraryImport(Name, EntryPoint = "mfq_consumer_open", StringMarshalling = StringMarshalling.Utf8)]
    public static partial int OpenConsumer(string path, string name, long start, out nint consumer, nint error);

    [LibraryImport(Name, EntryPoint = "mfq_seek")]
    public static partial int Seek(nint consumer, long start, nint error);

    [LibraryImport(Name, EntryPoint = "mfq_close")]
    public static partial void CloseConsumer(nint consumer);

    /// <summary>mfq_producer_options.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public readonly record struct ProducerOptions(int Mode, int Durability, int FlushTimeout)
    {
        public static ProducerOptions Exclusive => new(Mode: 1, Durability: 0, FlushTimeout: 0);

        public static ProducerOptions Shared => default;
    }
}
