using System.Runtime.InteropServices;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Tool.Output;

/// <summary>
/// Standard output for message bytes. The console's own stream swallows the error of a pipe whose reader has gone, and a command
/// would then continue to read and commit for no reader. On a pipe this stream throws, and the caller ends.
/// </summary>
internal static partial class StandardOutput
{
    private const int BufferLength = 64 * 1024;
    private const int UnixDescriptor = 1;

    /// <summary>The number of the error "broken pipe" on every Unix.</summary>
    private const int BrokenPipe = 32;

    /// <summary>Opens it, buffered. The buffer is written at <see cref="Stream.Flush()"/> or when it is full.</summary>
    public static Stream Open()
    {
        BufferedStream output = new(OpenUnbuffered(), BufferLength);
        return ToolConsole.IsOutputRedirected ? output : new TerminalStream(output);
    }

    /// <summary>
    /// True if the reader of the pipe has gone, like `head` when it has seen enough. A write would tell, but a command that waits
    /// for something to write does not write. Windows does not tell.
    /// </summary>
    public static bool HasLostItsReader()
    {
        const short ErrorOrHangUp = 0x8 | 0x10;    // POLLERR, and POLLHUP where the system says that instead
        if (OperatingSystem.IsWindows() || ToolConsole.IsRedirected)
            return false;
        PolledDescriptor output = new() { Descriptor = UnixDescriptor };
        return Poll(ref output, 1, 0) > 0 && (output.Found & ErrorOrHangUp) != 0;
    }

    /// <summary>True if a write failed because the reader of the pipe has gone.</summary>
    public static bool IsBrokenPipe(IOException error) => error.HResult == BrokenPipe;

    /// <summary>Writes something whole, or what the reader of a pipe takes before it goes.</summary>
    public static void Write(Action<Stream> write)
    {
        try
        {
            using Stream output = Open();
            write(output);
        }
        catch (IOException error) when (IsBrokenPipe(error))
        {
            // As `head` does.
        }
    }

    private static Stream OpenUnbuffered()
    {
        if (OperatingSystem.IsWindows() || ToolConsole.IsRedirected)
            return ToolConsole.OpenOutput();
        // A FileStream writes to a regular file at its own positions, and never moves the position that the next command of a
        // shell script inherits. A regular file has no reader to lose, so there the console's stream is the right one.
        FileStream stream = new(new SafeFileHandle(UnixDescriptor, ownsHandle: false), FileAccess.Write, bufferSize: 0);
        return stream.CanSeek ? ToolConsole.OpenOutput() : stream;
    }

    [LibraryImport("libc", EntryPoint = "poll")]
    private static partial int Poll(ref PolledDescriptor descriptors, nuint count, int milliseconds);

    /// <summary>struct pollfd.</summary>
    [StructLayout(LayoutKind.Sequential)]
    private struct PolledDescriptor
    {
        public int Descriptor;
        public short Asked;
        public short Found;
    }
}
