using System.Globalization;
using System.Text;

namespace MappedFileQueues.Tests.Interop;

/// <summary>What the readers in other languages print for a store; see the head of interop/c/test_vectors.c.</summary>
internal static class VectorLines
{
    /// <summary>The lines for one vector.</summary>
    public static IEnumerable<string> Of(string path, Vectors.Answer answer)
    {
        yield return $"store {path}";
        yield return $"open {answer.Open}";
        if (answer.Open != "ok")
            yield break;
        yield return Text($"kind {answer.Kind} {answer.StructSize} {answer.SegmentLength}");
        yield return Text($"first {answer.First}");
        foreach (Vectors.Message message in answer.Messages)
            yield return Text($"message {message.Offset} {message.Next} {Hex(message.Payload)}{Describe(message.Headers)}");
        yield return Text($"end {answer.End!.Kind} {answer.End.Offset}");
        if (answer.Cursors.Count == 0)
            yield return "cursor \"\" empty";
        foreach (string name in answer.Cursors.Keys.Order(StringComparer.Ordinal))
            yield return $"cursor \"{name}\" {(answer.Cursors[name].ToString() is { Length: > 0 } offset ? offset : "empty")}";
    }

    /// <summary>The lines of a consumer and a producer that come alone to the store of one vector.</summary>
    public static IEnumerable<string> OfAttach(string path, Vectors.Answer answer)
    {
        yield return $"store {path}";
        yield return Text($"consume {answer.Attach} {(answer.Attach == "ok" ? answer.Messages.Length : 0)}");
        yield return $"produce {answer.Attach}";
    }

    /// <summary>Where two lists of lines differ first.</summary>
    public static IEnumerable<string> Differences(IEnumerable<string> expected, IEnumerable<string> actual)
    {
        string[] wanted = [.. expected];
        string[] got = [.. actual];
        for (int i = 0; i < Math.Max(wanted.Length, got.Length); i++)
        {
            string want = i < wanted.Length ? wanted[i] : "nothing";
            string have = i < got.Length ? got[i] : "nothing";
            if (want != have)
            {
                string? store = wanted.Take(i).LastOrDefault(line => line.StartsWith("store ", StringComparison.Ordinal));
                return [$"line {i} in {store}: got {Short(have)}, expected {Short(want)}"];
            }
        }

        return [];
    }

    private static string Describe(Vectors.Headers? headers)
    {
        if (headers is null)
            return "";
        var text = new StringBuilder(" headers");
        if (headers.Time is { } time)
            text.Append(CultureInfo.InvariantCulture, $" time={time}");
        if (headers.Producer is [var id, var sequence])
            text.Append(CultureInfo.InvariantCulture, $" producer={id},{sequence},{(headers.Carried ? 1 : 0)}");
        if (headers.TraceId is not null)
        {
            string ids = $" trace={headers.TraceId},{headers.SpanId}";
            text.Append(ids).Append(CultureInfo.InvariantCulture, $",{headers.TraceFlags},{headers.TraceState}");
        }

        if (headers.Key is { } key)
            text.Append(CultureInfo.InvariantCulture, $" key={Hex(key)}");
        return text.ToString();
    }

    private static string Hex(string hex) => hex.Length == 0 ? "-" : hex;

    private static string Short(string line) => line.Length < 200 ? line : line[..200];

    private static string Text(FormattableString text) => text.ToString(CultureInfo.InvariantCulture);
}
