using System.IO.MemoryMappedFiles;
using System.Text;
using MappedFileQueues.Files;
using Microsoft.Win32.SafeHandles;
using static MappedFileQueues.Bench.DotnetIo.IoLoops;

namespace MappedFileQueues.Bench.DotnetIo;

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
        new("lines", $"Reading a text file by lines of {IoFiles.LineLength} bytes", Lines),
    ];

    private static IoCases Open(IoFiles files) =>
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

    private static IoCases Small(IoFiles files)
    {
        byte[] buffer = new byte[Page];
        return
        [
            new("RandomAccess.Read", "own buffer", () =>
            {
                using SafeFileHandle file = File.OpenHandle(files.Small);
                ReadAll(files, file, buffer, IoFiles.SmallLength);
            }),
            new("File.ReadAllBytes", "", () => CheckWhole(files, File.ReadAllBytes(files.Small), IoFiles.SmallLength)),
            new("File.ReadAllText", "Latin-1", () =>
            {
                string text = File.ReadAllText(files.Small, Encoding.Latin1);
                Check(text.Length, IoFiles.SmallLength);
                files.CheckRead([(byte)text[0]], 0);
            }),
            new("FileStream", "no buffer", () => ReadBy(files, OpenStream(files.Small, 0), buffer, IoFiles.SmallLength)),
            new("FileStream", "default buffer", () => ReadBy(files, OpenStream(files.Small, Page), buffer, IoFiles.SmallLength)),
            new("MemoryMappedFile", "with a view", () => WithView(files.Small, view => files.CheckRead([view.ReadByte(0)], 0))),
            new("ReadAheadStream", "", () => ReadBy(files, new ReadAheadStream(files.Small), buffer, IoFiles.SmallLength)),
        ];
    }

    private static IoCases AtRandom(IoFiles files)
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
            long position = stream.Position;
            stream.ReadExactly(buffer);
            files.CheckRead(buffer, position);
        }

        return
        [
            new("RandomAccess.Read", "", () =>
            {
                long position = random.NextInt64(files.Length - Page);
                Check(RandomAccess.Read(file, buffer, position), Page);
                files.CheckRead(buffer, position);
            }),
            new("FileStream", "no buffer", () => SeekAndRead(bare)),
            new("FileStream", "default buffer", () => SeekAndRead(buffered)),
            new("FileStream", "64 KiB buffer", () => SeekAndRead(large)),
        ];
    }

    private static IoCases Sequential(IoFiles files)
    {
        IoCases cases = [];
        foreach (int length in new[] { Page, Medium, Large })
        {
            byte[] buffer = new byte[length];
            cases.Add(new("RandomAccess.Read", NameOf(length), () =>
            {
                using SafeFileHandle file = File.OpenHandle(files.Source);
                ReadAll(files, file, buffer, files.Length);
            }));
        }

        foreach ((int streamBuffer, string name) in new[] { (0, "no buffer"), (Page, "default buffer"), (Large, "1 MiB buffer") })
        {
            int[] lengths = streamBuffer > 0 ? [IoLoops.Small, Page, Medium, Large] : [Page, Medium, Large];
            foreach (int length in lengths)
            {
                byte[] buffer = new byte[length];
                cases.Add(new("FileStream", $"{name}, {NameOf(length)}", () =>
                    ReadBy(files, OpenStream(files.Source, streamBuffer), buffer, files.Length)));
            }
        }

        byte[] pageBuffer = new byte[Page];
        cases.Add(new("FileStream", "SequentialScan, 4 KiB", () =>
            ReadBy(files, OpenStream(files.Source, Page, FileOptions.SequentialScan), pageBuffer, files.Length)));
        cases.Add(new("File.ReadAllBytes", "", () => CheckWhole(files, File.ReadAllBytes(files.Source), files.Length)));
        cases.Add(new("MemoryMappedFile", "copied by 64 KiB", () => CopyOutOfView(files)));
        foreach (int length in new[] { IoLoops.Small, Page, Medium, Large })
        {
            byte[] buffer = new byte[length];
            cases.Add(new("ReadAheadStream", NameOf(length), () =>
                ReadBy(files, new ReadAheadStream(files.Source), buffer, files.Length)));
        }

        return cases;
    }

    private static IoCases Lines(IoFiles files) =>
    [
        new("File.ReadLines", "", () => CheckLines(files, File.ReadLines(files.Text))),
        new("File.ReadAllLines", "", () => CheckLines(files, File.ReadAllLines(files.Text))),
        new("File.ReadLinesAsync", "", () => CheckLinesAsync(files).GetAwaiter().GetResult()),
        new("StreamReader.ReadLine", "", () =>
        {
            using StreamReader reader = File.OpenText(files.Text);
            long count = 0;
            long length = 0;
            for (; reader.ReadLine() is { } line; length += line.Length)
                count++;
            CheckLines(files, count, length);
        }),
        new("MappedFileLines", "", () =>
        {
            using MappedFileLines lines = MappedFileLines.Open(files.Text);
            long count = 0;
            long length = 0;
            foreach (ReadOnlySpan<byte> line in lines)
            {
                count++;
                length += line.Length;
            }

            CheckLines(files, count, length);
        }),
    ];

    private static void CheckLines(IoFiles files, IEnumerable<string> lines)
    {
        long count = 0;
        long length = 0;
        foreach (string line in lines)
        {
            count++;
            length += line.Length;
        }

        CheckLines(files, count, length);
    }

    private static async Task CheckLinesAsync(IoFiles files)
    {
        long count = 0;
        long length = 0;
        await foreach (string line in File.ReadLinesAsync(files.Text).ConfigureAwait(false))
        {
            count++;
            length += line.Length;
        }

        CheckLines(files, count, length);
    }

    private static void CheckLines(IoFiles files, long count, long length)
    {
        Check(count, files.LineCount);
        Check(length + count, files.LineCount * IoFiles.LineLength);
    }

    private static FileStream OpenStream(string path, int bufferLength, FileOptions options = FileOptions.None) =>
        new(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite, bufferLength, options);

    private static void ReadBy(IoFiles files, Stream stream, byte[] buffer, long length)
    {
        using (stream)
            ReadAll(files, stream, buffer, length);
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
        {
            int count = view.ReadArray(moved, buffer, 0, (int)Math.Min(Medium, files.Length - moved));
            files.CheckRead(buffer.AsSpan(0, count), moved);
            moved += count;
        }

        Check(moved, files.Length);
    });
}
