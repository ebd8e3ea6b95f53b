using System.Globalization;
using MappedFileQueues.Files;
using MappedFileQueues.Tests.Files;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `append FILE PREALLOCATION ROLL FIRST`: appends the lines of thread 0 from this number on, for ever, and says `flushed N`
/// whenever the first N are with the system. It waits to be killed.
/// </summary>
internal static class AppendVerb
{
    public static int Run(string[] arguments)
    {
        long rollLength = long.Parse(arguments[2], CultureInfo.InvariantCulture);
        using AppendFileStream stream = new(arguments[0], new AppendFileOptions
        {
            BufferLength = 16 * 1024,
            Preallocation = Enum.Parse<FilePreallocation>(arguments[1]),
            PreallocationLength = 200_000,
            RollLength = rollLength,
            Durability = AppendDurability.PageCache,
            Content = FileContent.Text,
        });
        for (int i = int.Parse(arguments[3], CultureInfo.InvariantCulture); ; i++)
        {
            stream.Write(LineMaker.Line(0, i));
            if (i % 37 != 0)
                continue;
            stream.Flush();
            Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"flushed {i + 1}"));
        }
    }
}
