using MappedFileQueues.Files;
using Microsoft.Win32.SafeHandles;
using static MappedFileQueues.Tool.Bench.DotnetIo.IoLoops;

namespace MappedFileQueues.Tool.Bench.DotnetIo;

/// <summary>Writing, calls that do not block, and copying.</summary>
internal static class IoWriteTables
{
    public static IEnumerable<IoTable> All =>
    [
        new("write", "Writing a new file, without a flush to the disk; the caller's buffer stands last", Write),
        new("read_async", "Reading a file from front to back by asynchronous calls", ReadAsync),
        new("write_async", "Writing a new file by asynchronous calls", WriteAsync),
        new("copy", "Copying a file", Copy),
    ];

    private static List<IoCase> Write(IoFiles files)
    {
        List<IoCase> cases = [];
        foreach (int length in new[] { Page, Medium, Large })
        {
            byte[] buffer = new byte[length];
            cases.Add(new("RandomAccess.Write", NameOf(length), () =>
            {
                using SafeFileHandle file = OpenHandle(files);
                WriteAll(file, buffer, files.Length);
            }));
        }

        foreach ((int streamBuffer, string name) in new[] { (0, "no buffer"), (Page, "default buffer"), (Large, "1 MiB buffer") })
        {
            foreach (int length in new[] { Small, Page, Medium }.Where(length => streamBuffer > 0 || length >= Page))
            {
                byte[] buffer = new byte[length];
                cases.Add(new("FileStream", $"{name}, {NameOf(length)}", () =>
                    WriteBy(OpenStream(files, streamBuffer), buffer, files.Length)));
            }
        }

        byte[] page = new byte[Page];
        cases.Add(new("FileStream", "preallocated, default buffer, 4 KiB", () =>
            WriteBy(OpenStream(files, Page, preallocated: files.Length), page, files.Length)));
        cases.Add(new("File.WriteAllBytes", "made before", WholeWriter(files)));
        foreach (int length in new[] { Small, Page, Medium })
        {
            byte[] buffer = new byte[length];
            cases.Add(new("AppendFileStream", $"no flush, {NameOf(length)}", () =>
            {
                WriteBy(
                    new AppendFileStream(files.NewTarget(), new AppendFileOptions { Durability = AppendDurability.PageCache }),
                    buffer,
                    files.Length);
            }));
        }

        return cases;
    }

    private static List<IoCase> ReadAsync(IoFiles files)
    {
        List<IoCase> cases = [];
        foreach (int length in new[] { Page, Medium, Large })
        {
            byte[] buffer = new byte[length];
            string name = NameOf(length);
            foreach (FileOptions options in new[] { FileOptions.None, FileOptions.Asynchronous })
            {
                string opened = options == FileOptions.None ? "" : "Asynchronous, ";
                cases.Add(new("RandomAccess.ReadAsync", $"{opened}{name}", () =>
                {
                    using SafeFileHandle file = File.OpenHandle(files.Source, options: options);
                    ReadAllAsync(file, buffer, files.Length).GetAwaiter().GetResult();
                }));
                cases.Add(new("FileStream.ReadAsync", $"{opened}default buffer, {name}", () =>
                {
                    using FileStream stream = new(
                        files.Source, FileMode.Open, FileAccess.Read, FileShare.Read, Page, options);
                    ReadAllAsync(stream, buffer, files.Length).GetAwaiter().GetResult();
                }));
            }

            cases.Add(new("ReadAheadStream.ReadAsync", name, () =>
            {
                using ReadAheadStream stream = new(files.Source);
                ReadAllAsync(stream, buffer, files.Length).GetAwaiter().GetResult();
            }));
        }

        cases.Add(new("File.ReadAllBytesAsync", "", () =>
            Check(File.ReadAllBytesAsync(files.Source).GetAwaiter().GetResult().Length, files.Length)));
        return cases;
    }

    private static List<IoCase> WriteAsync(IoFiles files)
    {
        List<IoCase> cases = [];
        foreach (int length in new[] { Page, Medium })
        {
            byte[] buffer = new byte[length];
            string name = NameOf(length);
            cases.Add(new("RandomAccess.WriteAsync", $"Asynchronous, {name}", () =>
            {
                using SafeFileHandle file = OpenHandle(files, FileOptions.Asynchronous);
                WriteAllAsync(file, buffer, files.Length).GetAwaiter().GetResult();
            }));
            foreach (FileOptions options in new[] { FileOptions.None, FileOptions.Asynchronous })
            {
                string opened = options == FileOptions.None ? "" : "Asynchronous, ";
                cases.Add(new("FileStream.WriteAsync", $"{opened}default buffer, {name}", () =>
                {
                    using FileStream stream = OpenStream(files, Page, options);
                    WriteAllAsync(stream, buffer, files.Length).GetAwaiter().GetResult();
                }));
            }
        }

        return cases;
    }

    private static IReadOnlyList<IoCase> Copy(IoFiles files)
    {
        byte[] large = new byte[Large];
        return
        [
            new("RandomAccess", "1 MiB", () =>
            {
                using SafeFileHandle from = File.OpenHandle(files.Source);
                using SafeFileHandle to = OpenHandle(files);
                long position = 0;
                for (int count; (count = RandomAccess.Read(from, large, position)) > 0; position += count)
                    RandomAccess.Write(to, large.AsSpan(0, count), position);
            }),
            new("File.Copy", "", () => File.Copy(files.Source, files.NewTarget())),
            new("FileStream.CopyTo", "default", () => CopyBy(File.OpenRead(files.Source), files)),
            new("FileStream.CopyTo", "1 MiB", () => CopyBy(File.OpenRead(files.Source), files, Large)),
            new("FileStream.CopyToAsync", "Asynchronous, default", () =>
            {
                using FileStream from = new(
                    files.Source, FileMode.Open, FileAccess.Read, FileShare.Read, Page, FileOptions.Asynchronous);
                using FileStream to = OpenStream(files, Page, FileOptions.Asynchronous);
                from.CopyToAsync(to).GetAwaiter().GetResult();
            }),
            new("ReadAheadStream.CopyTo", "", () => CopyBy(new ReadAheadStream(files.Source), files)),
        ];
    }

    private static SafeFileHandle OpenHandle(IoFiles files, FileOptions options = FileOptions.None) =>
        File.OpenHandle(files.NewTarget(), FileMode.CreateNew, FileAccess.Write, options: options);

    private static FileStream OpenStream(
        IoFiles files, int bufferLength, FileOptions options = FileOptions.None, long preallocated = 0) =>
        new(files.NewTarget(), new FileStreamOptions
        {
            Mode = FileMode.CreateNew,
            Access = FileAccess.Write,
            BufferSize = bufferLength,
            Options = options,
            PreallocationSize = preallocated,
        });

    private static Action WholeWriter(IoFiles files)
    {
        byte[] whole = [];
        return () =>
        {
            if (whole.Length != files.Length)
                whole = new byte[files.Length];
            File.WriteAllBytes(files.NewTarget(), whole);
        };
    }

    private static void WriteBy(Stream stream, byte[] buffer, long length)
    {
        using (stream)
            WriteAll(stream, buffer, length);
    }

    private static void CopyBy(Stream from, IoFiles files, int? bufferLength = null)
    {
        using (from)
        {
            using FileStream to = OpenStream(files, 0);
            if (bufferLength is int length)
                from.CopyTo(to, length);
            else
                from.CopyTo(to);
        }
    }
}
