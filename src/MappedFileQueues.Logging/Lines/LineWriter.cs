using System.Runtime.CompilerServices;
using System.Text.Encodings.Web;
using System.Text.Json;

namespace MappedFileQueues.Hosting;

/// <summary>The buffers that a thread needs to make a line, kept between lines.</summary>
internal sealed class LineWriter
{
    // The lines go into files, not into web pages: letters of all languages stay as they are.
    private static readonly JsonWriterOptions s_json = new() { Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping };

    private Utf8JsonWriter? _json;

    /// <summary>The line.</summary>
    public LineBuffer Line { get; } = new();

    /// <summary>The line's message, which is made first.</summary>
    public LineBuffer Message { get; } = new();

    /// <summary>The names and values that are being written.</summary>
    public List<KeyValuePair<string, object?>> Pairs { get; } = [];

    /// <summary>The size of the kept buffers in bytes.</summary>
    public int Capacity =>
        Line.Capacity + Message.Capacity + (Pairs.Capacity * Unsafe.SizeOf<KeyValuePair<string, object?>>());

    /// <summary>True if a scope has been written to this line.</summary>
    public bool HasScopes { get; set; }

    /// <summary>Starts a JSON writer at the beginning of the line.</summary>
    public Utf8JsonWriter StartJson()
    {
        if (_json is null)
            return _json = new Utf8JsonWriter(Line, s_json);
        _json.Reset(Line);
        return _json;
    }

    /// <summary>The writer that <see cref="StartJson"/> has started.</summary>
    public Utf8JsonWriter Json => _json!;

    public void Clear()
    {
        Line.Clear();
        Message.Clear();
        Pairs.Clear();
        HasScopes = false;
    }
}
