using System.Globalization;
using System.Text;

namespace MappedFileQueues.Tool.Pack;

/// <summary>
/// Makes keys safe to print: they come from outside, and control characters in them must not reach the terminal.
/// </summary>
internal static class PrintableKey
{
    public static string Of(string key)
    {
        if (!key.Any(static letter => char.IsControl(letter) || letter == '\\'))
            return key;
        var text = new StringBuilder();
        foreach (char letter in key)
        {
            if (char.IsControl(letter))
                text.Append(CultureInfo.InvariantCulture, $"\\u{(int)letter:x4}");
            else
                text.Append(letter == '\\' ? "\\\\" : letter);
        }

        return text.ToString();
    }
}
