namespace MappedFileQueues.Demo;

/// <summary>The lines of a plan, one after the other, through all files and rounds.</summary>
internal sealed class InputLines : IDisposable
{
    private readonly InputStream _bytes;
    private readonly InputReader _lines;

    /// <summary>Begins with the first line of the first file.</summary>
    public InputLines(InputPlan plan, int lineLengthMax)
    {
        _bytes = new InputStream(plan);
        _lines = new InputReader(_bytes.Read, "the demo's input", lineLengthMax);
    }

    /// <summary>Reads the next line, without its \n; false after the last round. The span is valid until the next call.</summary>
    public bool TryRead(out ReadOnlySpan<byte> line) => _lines.TryReadLine(out line);

    /// <summary>Closes the current file.</summary>
    public void Dispose() => _bytes.Dispose();
}
