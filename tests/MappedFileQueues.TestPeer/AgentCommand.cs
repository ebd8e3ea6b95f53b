using System.Globalization;

namespace MappedFileQueues.TestPeer;

/// <summary>A word and key=value pairs, separated by spaces.</summary>
internal sealed class AgentCommand
{
    private readonly Dictionary<string, string> _values = new(StringComparer.Ordinal);

    public AgentCommand(string line)
    {
        string[] parts = line.Split(' ', StringSplitOptions.RemoveEmptyEntries);
        Word = parts[0];
        foreach (string part in parts.AsSpan(1))
        {
            int at = part.IndexOf('=', StringComparison.Ordinal);
            _values[part[..at]] = part[(at + 1)..];
        }
    }

    public string Word { get; }

    public string this[string key] => _values[key];

    public string Text(string key, string otherwise) => _values.GetValueOrDefault(key, otherwise);

    public int Number(string key) => int.Parse(_values[key], CultureInfo.InvariantCulture);

    public int Number(string key, int otherwise) => _values.ContainsKey(key) ? Number(key) : otherwise;
}
