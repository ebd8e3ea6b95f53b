namespace MappedFileQueues.Tool.Output;

/// <summary>
/// Writes the lines of a result to standard output. On a terminal no control character of a path, a name, a key or an error gets
/// through; redirected, the text is as it is.
/// </summary>
internal static class OutputLine
{
    public static void Write(string text) => ToolConsole.Out.WriteLine(TerminalText.ForOutput(text));
}
