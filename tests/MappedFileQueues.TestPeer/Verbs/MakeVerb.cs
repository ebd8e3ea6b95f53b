using System.Globalization;
using System.Text;
using MappedFileQueues.Files;
using MappedFileQueues.Packs;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `make FOLDER [MODE]`: makes, or continues with, a store, a pack and a log with all the kinds of files that they have, in the
/// subfolders `queue`, `pack` and `log`, with this octal mode of what is made.
/// </summary>
internal static class MakeVerb
{
    public static int Run(string[] arguments)
    {
        UnixFileMode? mode = arguments.Length > 1 ? (UnixFileMode)Convert.ToInt32(arguments[1], 8) : null;
        MakeStore(Path.Combine(arguments[0], "queue"), mode);
        MakePack(Path.Combine(arguments[0], "pack"), mode);
        MakeLog(Path.Combine(arguments[0], "log", "app.log"), mode);
        return 0;
    }

    private static void MakeStore(string path, UnixFileMode? mode)
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions
        {
            StorePath = path,
            SegmentSize = 64 * 1024,
            UnixCreateMode = mode,
        });
        byte[] message = new byte[20_000];
        for (int i = 0; i < 80; i++)
            queue.Producer.Produce(message);
        MappedFileConsumer consumer = queue.OpenConsumer("reader");
        _ = consumer.Consume();
        consumer.Commit();
        queue.Flush();
    }

    private static void MakePack(string path, UnixFileMode? mode)
    {
        using PackStore pack = PackStore.Open(path, new PackOptions { VolumeSize = 1024 * 1024, UnixCreateMode = mode });
        byte[] value = new byte[100_000];
        for (int i = 0; i < 15; i++)
            pack.Put(i.ToString(CultureInfo.InvariantCulture), value);
    }

    private static void MakeLog(string path, UnixFileMode? mode)
    {
        using AppendFileStream log = new(path, new AppendFileOptions
        {
            RollLength = 10_000,
            RetainedFileCount = 2,
            ReuseOldFiles = true,
            Content = FileContent.Text,
            UnixCreateMode = mode,
        });
        byte[] line = Encoding.UTF8.GetBytes(new string('x', 999) + "\n");
        for (int i = 0; i < 50; i++)
            log.Write(line);
    }
}
