using System.Globalization;
using System.Text;

namespace MappedFileQueues.Tests.Files;

/// <summary>
/// Lines that tell who wrote them, which one they are and whether they are whole; some are longer than a small buffer.
/// </summary>
internal static class LineMaker
{
    /// <summary>The line of a thread with this number, with its line end.</summary>
    public static byte[] Line(int thread, int number)
    {
        int length = number % 500 == 499 ? 20_000 : number % 20 == 19 ? number * 7 % 3000 : number * 7 % 190;
        string fill = new((char)('a' + (thread + number) % 26), length);
        return Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"{thread}:{number}:{length}:{fill}\n"));
    }
}
