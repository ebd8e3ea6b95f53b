using System.IO.MemoryMappedFiles;
using MappedFileQueues.Files;
using Microsoft.Win32.SafeHandles;
using static MappedFileQueues.Bench.DotnetIo.IoLoops;

namespace MappedFileQueues.Bench.DotnetIo;

/// <summary>Writing, calls that do not block, and copying.</summary>
internal static class IoWriteTables
{
    /// <summary>How many buffers one vectored write takes.</summary>
    private const int ListCount = 16;

    public static IEnumerable<IoTable> All =>
    [
        new("write", "Writing a new file, without a flush to the disk; the caller's buffer stands last", Write)
        {
            Check = static files => files.CheckTarget(isCopy: false),
        },
        new("read_async", "Reading a file from front to back by asynchronous calls", ReadAsync),
        new("write_async", "Writing a new file by asynchronous calls", WriteAsync)
        {
            Check = static files => files.CheckTarget(isCopy: false),
        },
        new("copy", "Copying a file", Copy) { Check = static files => files.CheckTarget(isCopy: true) },
    ];

    private static IoCases Write(IoFiles files)
    {
        IoCases cases = [];
        foreach (int length in new[] { Page, Medium, Large })
        {
            byte[] buffer = IoFiles.Pattern(length);
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
                byte[] buffer = IoFiles.Pattern(length);
                cases.Add(new("FileStream", $"{name}, {NameOf(length)}", () =>
                    WriteBy(OpenStream(files, streamBuffer), buffer, files.Length)));
            }
        }

        byte[] page = IoFiles.Pattern(Page);
        cases.Add(new("FileStream", "preallocated, default buffer, 4 KiB", () =>
            WriteBy(OpenStream(files, Page, preallocated: files.Length), page, files.Length)));
        cases.Add(new("File.WriteAllBytes", "made before", WholeWriter(files)));
        cases.Add(new("File.WriteAllText", "made before", () => File.WriteAllText(files.NewTarget(), files.WholePattern())));
        cases.Add(new("MemoryMappedFile", "copied by 64 KiB", () => WriteMapped(files)));
        foreach (int length in new[] { Page, Medium })
        {
            ReadOnlyMemory<byte>[] list = [.. Enumerable.Repeat<ReadOnlyMemory<byte>>(IoFiles.Pattern(length), ListCount)];
            cases.Add(new("RandomAccess.Write", $"{ListCount} times {NameOf(length)} in a list", () => WriteLists(files, list)));
        }

        foreach (int length in new[] { Small, Page, Medium })
        {
            byte[] buffer = IoFiles.Pattern(length);
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

    private static IoCases ReadAsync(IoFiles files)
    {
        IoCases cases = [];
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
                    ReadAllAsync(files, file, buffer, files.Length).GetAwaiter().GetResult();
                }));
                cases.Add(new("FileStream.ReadAsync", $"{opened}default buffer, {name}", () =>
                {
                    using FileStream stream = new(
                        files.Source, FileMode.Open, FileAccess.Read, FileShare.Read, Page, options);
                    ReadAllAsync(files, stream, buffer, files.Length).GetAwaiter().GetResult();
                }));
            }

            cases.Add(new("ReadAheadStream.ReadAsync", name, () =>
            {
                using ReadAheadStream stream = new(files.Source);
                ReadAllAsync(files, stream, buffer, files.Length).GetAwaiter().GetResult();
            }));
        }

        cases.Add(new("File.ReadAllBytesAsync", "", () =>
            CheckWhole(files, File.ReadAllBytesAsync(files.Source).GetAwaiter().GetResult(), files.Length)));
        return cases;
    }

    private static IoCases WriteAsync(IoFiles files)
    {
        IoCases cases = [];
        foreach (int length in new[] { Page, Medium })
        {
            byte[] buffer = IoFiles.Pattern(length);
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

    private static IoCases Copy(IoFiles files)
    {
        byte[] large = new byte[Large];
        IoCases cases =
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
        AddKernelCopy(cases, files, "copy_file_range(2)", KernelCopies.CopyRange);
        AddKernelCopy(cases, files, "ioctl FICLONE", KernelCopies.ShareBlocks);
        return cases;
    }

    /// <summary>A copy that the kernel makes by itself, where it can between these two files.</summary>
    private static void AddKernelCopy(IoCases cases, IoFiles files, string name, Func<SafeFileHandle, SafeFileHandle, int> copy)
    {
        int errno = Copy();
        if (errno == 0)
        {
            cases.Add(new(name, "", () =>
            {
                if (Copy() is not 0 and int now)
                    throw new ToolException($"{name} failed: errno={now}.");
            }));
        }
        else
        {
            cases.Notes.Add($"{name} is left out: this system or file system does not do it, errno={errno}.");
        }

        int Copy()
        {
            using SafeFileHandle from = File.OpenHandle(files.Source);
            using SafeFileHandle to = OpenHandle(files);
            return copy(from, to);
        }
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

    private static void WriteMapped(IoFiles files)
    {
        byte[] buffer = IoFiles.Pattern(Medium);
        using MemoryMappedFile file = MemoryMappedFile.CreateFromFile(
            files.NewTarget(), FileMode.CreateNew, null, files.Length, MemoryMappedFileAccess.ReadWrite);
        using MemoryMappedViewAccessor view = file.CreateViewAccessor(0, files.Length);
        for (long position = 0; position < files.Length; position += Medium)
            view.WriteArray(position, buffer, 0, (int)Math.Min(Medium, files.Length - position));
    }

    private static void WriteLists(IoFiles files, ReadOnlyMemory<byte>[] list)
    {
        using SafeFileHandle file = OpenHandle(files);
        long length = list.Sum(piece => piece.Length);
        long position = 0;
        for (; position + length <= files.Length; position += length)
            RandomAccess.Write(file, list, position);
        for (; position < files.Length; position += list[0].Length)
            RandomAccess.Write(file, list[0].Span[..(int)Math.Min(list[0].Length, files.Length - position)], position);
    }

    private static Action WholeWriter(IoFiles files)
    {
        byte[] whole = [];
        return () =>
        {
            if (whole.Length != files.Length)
                whole = IoFiles.Pattern((int)files.Length);
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
