using System.IO.MemoryMappedFiles;
using MappedFileQueues.Files;
using Microsoft.Win32.SafeHandles;
using static MappedFileQueues.Tool.Bench.DotnetIo.IoLoops;

namespace MappedFileQueues.Tool.Bench.DotnetIo;

/// <summary>Opening and reading.</summary>
internal static class IoReadTables
{
    private const int OpenOperations = 500;
    private const int SmallOperations = 500;
    private const int RandomOperations = 5000;

    public static IEnumerable<IoTable> All =>
    [
        new("open", "Opening and closing a file for reading", Open, OpenOperations),
        new("small", $"Opening, reading and closing a file of {IoFiles.SmallLength} bytes", Small, SmallOperations),
        new("random", "Reading 4 KiB at a random place of an open file", AtRandom, RandomOperations),
        new("read", "Reading a file from front to back; the caller's buffer stands last", Sequential),
    ];

    private static IReadOnlyList<IoCase> Open(IoFiles files) =>
    [
        new("File.OpenHandle", "", () => File.OpenHandle(files.Source).Dispose()),
        new("File.OpenHandle", "Asynchronous", () => File.OpenHandle(files.Source, options: FileOptions.Asynchronous).Dispose()),
        new("FileStream", "no buffer", () => OpenStream(files.Source, 0).Dispose()),
        new("FileStream", "default buffer", () => OpenStream(files.Source, Page).Dispose()),
        new("FileStream", "SequentialScan", () => OpenStream(files.Source, Page, FileOptions.SequentialScan).Dispose()),
        new("FileStream", "Asynchronous", () => OpenStream(files.Source, Page, FileOptions.Asynchronous).Dispose()),
        new("File.OpenText", "", () => File.OpenText(files.Source).Dispose()),
        new("MemoryMappedFile", "with a view", () => WithView(files.Source, static _ => { })),
        new("ReadAheadStream", "", () => new ReadAheadStream(files.Source).Dispose()),
    ];

    private static IReadOnlyList<IoCase> Small(IoFiles files)
    {
        byte[] buffer = new byte[Page];
        return
        [
            new("RandomAccess.Read", "own buffer", () =>
            {
                using SafeFileHandle file = File.OpenHandle(files.Small);
                ReadAll(file, buffer, IoFiles.SmallLength);
            }),
            new("File.ReadAllBytes", "", () => Check(File.ReadAllBytes(files.Small).Length, IoFiles.SmallLength)),
            new("File.ReadAllText", "", () => Check(File.ReadAllText(files.Small).Length, IoFiles.SmallLength)),
            new("FileStream", "no buffer", () => ReadBy(OpenStream(files.Small, 0), buffer, IoFiles.SmallLength)),
            new("FileStream", "default buffer", () => ReadBy(OpenStream(files.Small, Page), buffer, IoFiles.SmallLength)),
            new("MemoryMappedFile", "with a view", () => WithView(files.Small, view => view.ReadByte(0))),
            new("ReadAheadStream", "", () => ReadBy(new ReadAheadStream(files.Small), buffer, IoFiles.SmallLength)),
        ];
    }

    private static IReadOnlyList<IoCase> AtRandom(IoFiles files)
    {
        byte[] buffer = new byte[Page];
        Random random = new(4);
        SafeFileHandle file = files.Keep(File.OpenHandle(files.Source, share: FileShare.ReadWrite));
        FileStream bare = files.Keep(OpenStream(files.Source, 0));
        FileStream buffered = files.Keep(OpenStream(files.Source, Page));
        FileStream large = files.Keep(OpenStream(files.Source, Medium));
        void SeekAndRead(FileStream stream)
        {
            stream.Position = random.NextInt64(files.Length - Page);
            stream.ReadExactly(buffer);
        }

        return
        [
            new("RandomAccess.Read", "", () => RandomAccess.Read(file, buffer, random.NextInt64(files.Length - Page))),
            new("FileStream", "no buffer", () => SeekAndRead(bare)),
            new("FileStream", "default buffer", () => SeekAndRead(buffered)),
            new("FileStream", "64 KiB buffer", () => SeekAndRead(large)),
        ];
    }

    private static List<IoCase> Sequential(IoFiles files)
    {
        List<IoCase> cases = [];
        foreach (int length in new[] { Page, Medium, Large })
        {
            byte[] buffer = new byte[length];
            cases.Add(new("RandomAccess.Read", NameOf(length), () =>
            {
                using SafeFileHandle file = File.OpenHandle(files.Source);
                ReadAll(file, buffer, files.Length);
            }));
        }

        foreach ((int streamBuffer, string name) in new[] { (0, "no buffer"), (Page, "default buffer"), (Large, "1 MiB buffer") })
        {
            int[] lengths = streamBuffer > 0 ? [IoLoops.Small, Page, Medium, Large] : [Page, Medium, Large];
            foreach (int length in lengths)
            {
                byte[] buffer = new byte[length];
                cases.Add(new("FileStream", $"{name}, {NameOf(length)}", () =>
                    ReadBy(OpenStream(files.Source, streamBuffer), buffer, files.Length)));
            }
        }

        byte[] pageBuffer = new byte[Page];
        cases.Add(new("FileStream", "SequentialScan, 4 KiB", () =>
            ReadBy(OpenStream(files.Source, Page, FileOptions.SequentialScan), pageBuffer, files.Length)));
        cases.Add(new("File.ReadAllBytes", "", () => Check(File.ReadAllBytes(files.Source).Length, files.Length)));
        cases.Add(new("MemoryMappedFile", "copied by 64 KiB", () => CopyOutOfView(files)));
        foreach (int length in new[] { IoLoops.Small, Page, Medium, Large })
        {
            byte[] buffer = new byte[length];
            cases.Add(new("ReadAheadStream", NameOf(length), () =>
                ReadBy(new ReadAheadStream(files.Source), buffer, files.Length)));
        }

        return cases;
    }

    private static FileStream OpenStream(string path, int bufferLength, FileOptions options = FileOptions.None) =>
        new(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite, bufferLength, options);

    private static void ReadBy(Stream stream, byte[] buffer, long length)
    {
        using (stream)
            ReadAll(stream, buffer, length);
    }

    private static void WithView(string path, Action<MemoryMappedViewAccessor> use)
    {
        using MemoryMappedFile file = MemoryMappedFile.CreateFromFile(path, FileMode.Open, null, 0, MemoryMappedFileAccess.Read);
        using MemoryMappedViewAccessor view = file.CreateViewAccessor(0, 0, MemoryMappedFileAccess.Read);
        use(view);
    }

    private static void CopyOutOfView(IoFiles files) => WithView(files.Source, view =>
    {
        byte[] buffer = new byte[Medium];
        long moved = 0;
        while (moved < files.Length)
            moved += view.ReadArray(moved, buffer, 0, (int)Math.Min(Medium, files.Length - moved));
        Check(moved, files.Length);
    });
}
