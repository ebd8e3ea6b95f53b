namespace MappedFileQueues.Tool.Output;

/// <summary>
/// The standard streams that the commands use: those of the process, or those that <see cref="Redirect"/> put in their place. The
/// tests run many commands at a time in one process, and each has streams of its own.
/// </summary>
internal static class ToolConsole
{
    private static readonly AsyncLocal<Streams?> s_streams = new();

    public static TextWriter Out => s_streams.Value?.Out ?? Console.Out;

    public static TextWriter Error => s_streams.Value?.Error ?? Console.Error;

    public static bool IsInputRedirected => IsRedirected || Console.IsInputRedirected;

    public static bool IsOutputRedirected => IsRedirected || Console.IsOutputRedirected;

    public static bool IsErrorRedirected => IsRedirected || Console.IsErrorRedirected;

    /// <summary>True if the streams are not those of the process.</summary>
    public static bool IsRedirected => s_streams.Value is not null;

    public static Stream OpenInput() => s_streams.Value?.Input ?? Console.OpenStandardInput();

    public static Stream OpenOutput() => s_streams.Value?.Output ?? Console.OpenStandardOutput();

    /// <summary>Replaces the streams for this thread's further work, and for what it starts.</summary>
    public static void Redirect(Stream input, Stream output, TextWriter error)
    {
        StreamWriter text = new(output, leaveOpen: true) { AutoFlush = true };
        s_streams.Value = new Streams(input, output, TextWriter.Synchronized(text), TextWriter.Synchronized(error));
    }

    private sealed record Streams(Stream Input, Stream Output, TextWriter Out, TextWriter Error);
}
