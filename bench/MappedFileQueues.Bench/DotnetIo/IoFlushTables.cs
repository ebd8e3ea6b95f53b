using System.IO.MemoryMappedFiles;
using System.Runtime.InteropServices;
using MappedFileQueues.Bench.Files;
using MappedFileQueues.Files;
using Microsoft.Win32.SafeHandles;
using static MappedFileQueues.Bench.DotnetIo.IoLoops;

namespace MappedFileQueues.Bench.DotnetIo;

/// <summary>
/// Writing with the disk inside the time. What .NET calls a flush to disk is fsync; fdatasync, and opening with the kernel's own
/// flags, take a call into libc. On ext4 the same once more, with and without its journal, in images that are mounted for it.
/// </summary>
internal static class IoFlushTables
{
    private const int FlushOperations = 200;

    private const string EachTitle =
        "Microseconds for 4 KiB written and on disk; new: behind the file's end, old: over blocks that were written before";

    public static IEnumerable<IoTable> All =>
    [
        new("write_flushed", "Writing a new file by 1 MiB, all of it on disk when the time ends", WriteFlushed)
        {
            IsFlushed = true,
            Check = static files => files.CheckTarget(isCopy: false),
        },
        new("flush_each", EachTitle, FlushEach, FlushOperations) { IsFlushed = true },
        new("ext4_journal", $"{EachTitle}; ext4 with its journal, an image in a file", FlushEach, FlushOperations)
        {
            IsFlushed = true,
            ImageOptions = [],
        },
        new("ext4_no_journal", $"{EachTitle}; ext4 without a journal, an image in a file", FlushEach, FlushOperations)
        {
            IsFlushed = true,
            ImageOptions = ["-O", "^has_journal"],
        },
    ];

    private static IoCases WriteFlushed(IoFiles files)
    {
        byte[] buffer = IoFiles.Pattern(Large);
        IoCases cases =
        [
            new("RandomAccess", "FlushToDisk, which is fsync", () =>
            {
                using SafeFileHandle file = File.OpenHandle(files.NewTarget(), FileMode.CreateNew, FileAccess.Write);
                WriteAll(file, buffer, files.Length);
                RandomAccess.FlushToDisk(file);
            }),
            new("FileStream", "no buffer, Flush(true)", () =>
            {
                using FileStream stream = new(files.NewTarget(), FileMode.CreateNew, FileAccess.Write, FileShare.None, 0);
                WriteAll(stream, buffer, files.Length);
                stream.Flush(flushToDisk: true);
            }),
            new("FileStream", "no buffer, WriteThrough", () =>
            {
                using FileStream stream = new(
                    files.NewTarget(), FileMode.CreateNew, FileAccess.Write, FileShare.None, 0, FileOptions.WriteThrough);
                WriteAll(stream, buffer, files.Length);
            }),
            new("MemoryMappedFile", "copied by 1 MiB, Flush, which is msync", () =>
            {
                using MemoryMappedFile file = MemoryMappedFile.CreateFromFile(
                    files.NewTarget(), FileMode.CreateNew, null, files.Length, MemoryMappedFileAccess.ReadWrite);
                using MemoryMappedViewAccessor view = file.CreateViewAccessor(0, files.Length);
                for (long position = 0; position < files.Length; position += Large)
                    view.WriteArray(position, buffer, 0, (int)Math.Min(Large, files.Length - position));
                view.Flush();
            }),
            new("AppendFileStream", "default options", () =>
            {
                using AppendFileStream stream = new(files.NewTarget());
                WriteAll(stream, buffer, files.Length);
            }),
        ];
        if (!OperatingSystem.IsLinux())
            return cases;
        cases.Add(new("RandomAccess", "fdatasync", () =>
        {
            using SafeFileHandle file = File.OpenHandle(files.NewTarget(), FileMode.CreateNew, FileAccess.Write);
            WriteAll(file, buffer, files.Length);
            DiskCalls.SyncData(file);
        }));
        AlignedBuffer aligned = files.Keep(new AlignedBuffer(buffer));
        AddDirect(cases, files, aligned, "O_DIRECT, fdatasync", 0, DiskCalls.SyncData);
        AddDirect(cases, files, aligned, "O_DIRECT | O_SYNC", DirectFiles.Synchronous, static _ => { });
        return cases;
    }

    private static void AddDirect(
        IoCases cases, IoFiles files, AlignedBuffer buffer, string detail, int flags, Action<SafeFileHandle> sync)
    {
        using (SafeFileHandle? probe = DirectFiles.TryOpen(files.NewTarget(), DirectFiles.WriteNew | flags))
        {
            if (probe is null)
            {
                cases.Notes.Add($"{detail} is left out: this file system does not write past the cache.");
                return;
            }
        }

        cases.Add(new("open(2)", detail, () =>
        {
            using SafeFileHandle file = DirectFiles.TryOpen(files.NewTarget(), DirectFiles.WriteNew | flags)
                ?? throw new ToolException($"A file cannot be made past the cache: errno={Marshal.GetLastPInvokeError()}.");
            for (long position = 0; position < files.Length; position += Large)
                RandomAccess.Write(file, buffer.Span[..(int)Math.Min(Large, files.Length - position)], position);
            sync(file);
        }));
    }

    private static IoCases FlushEach(IoFiles files)
    {
        IoCases cases = [];
        foreach (bool isNew in new[] { true, false })
        {
            Add(cases, files, isNew, "write, fsync", 0, static file => RandomAccess.FlushToDisk(file));
            if (!OperatingSystem.IsLinux())
                continue;
            Add(cases, files, isNew, "write, fdatasync", 0, DiskCalls.SyncData);
            Add(cases, files, isNew, "O_SYNC", DirectFiles.Synchronous, static _ => { });
            Add(cases, files, isNew, "O_DSYNC", DirectFiles.DataSynchronous, static _ => { });
            int direct = DirectFiles.PastTheCache;
            Add(cases, files, isNew, "O_DIRECT | O_SYNC", direct | DirectFiles.Synchronous, static _ => { });
            Add(cases, files, isNew, "O_DIRECT | O_DSYNC", direct | DirectFiles.DataSynchronous, static _ => { });
        }

        FlushedMapping mapping = files.Keep(new FlushedMapping(files.PathOf("mapped")));
        cases.Add(new("old", "mapped, msync", mapping.WriteNext, mapping.Check));
        AppendedBlocks appended = files.Keep(new AppendedBlocks(files.PathOf("appended")));
        cases.Add(new("new", "AppendFileStream, Group", appended.WriteNext, appended.Check));
        return cases;
    }

    private static void Add(IoCases cases, IoFiles files, bool isNew, string detail, int flags, Action<SafeFileHandle> sync)
    {
        string api = isNew ? "new" : "old";
        if (FlushedBlocks.TryOpen(files.PathOf($"blocks-{cases.Count}"), isNew, flags, sync) is { } blocks)
            cases.Add(new(api, detail, files.Keep(blocks).WriteNext, blocks.Check));
        else
            cases.Notes.Add($"{api}, {detail} is left out: this system or file system does not open a file so.");
    }
}
