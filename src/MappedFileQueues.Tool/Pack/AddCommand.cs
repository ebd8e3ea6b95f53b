using System.Buffers;
using MappedFileQueues.Files.Reading.Blocks;
using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Writing;

namespace MappedFileQueues.Tool.Pack;

/// <summary>`mfq pack add`: puts files and directory trees into a pack.</summary>
internal static class AddCommand
{
    private const long MaxBytesMin = 8192;

    public static Command Create()
    {
        Argument<string> pack = ToolOptions.PathArgument("PACK", "The pack's directory; created when it is missing.");
        Argument<string[]> paths = new("PATH")
        {
            Description = "Files, and directories whose files are added under their relative paths, separated by /.",
            Arity = ArgumentArity.OneOrMore,
        };
        Option<string> prefix = PackCommand.PrefixOption("A text that precedes each key.");
        Option<bool> durable = PackCommand.DurableOption();
        Option<long?> maxBytes = ToolOptions.Size(
            "--max-bytes",
            $"Evict the objects that were put longest ago where the volumes would become longer; at least {MaxBytesMin}.",
            MaxBytesMin);
        return new Command(
            "add",
            "Put files into a pack, replacing those of the same key. Objects that are equal already stay as they are: "
                + "`mfq pack add texts.pack README.md --durable`.")
        {
            pack, paths, prefix, durable, maxBytes,
        }.Does(parsed =>
        {
            AddResult result = Add(
                parsed.GetRequiredValue(pack), parsed.GetRequiredValue(paths), parsed.GetRequiredValue(prefix),
                parsed.GetValue(durable), parsed.GetValue(maxBytes));
            return Result.Write(
                parsed, result, ToolJson.Lines.AddResult,
                $"added {Report.Count(result.Added, "file")}, {Report.Bytes(result.Length)}"
                    + (result.Unchanged > 0 ? $"; {Report.Number(result.Unchanged)} were there unchanged" : "")
                    + (result.Evicted > 0 ? $"; {Report.Number(result.Evicted)} were evicted" : ""),
                result.Skipped == 0 ? ExitCodes.Success : ExitCodes.Failure);
        });
    }

    private static AddResult Add(string packPath, string[] paths, string prefix, bool isDurable, long? maxBytes)
    {
        long count = 0;
        long unchanged = 0;
        long length = 0;
        long skipped = 0;
        List<PackFile> files = [.. paths.SelectMany(path => PackFiles.Of(path, prefix, packPath, Skip))];
        RefuseEqualKeys(files);
        // A missing pack is made when there is something to put into it.
        PackStore? opened = null;
        PackStore Opened() => opened ??= PackStore.Open(packPath, new PackOptions { MaxBytes = maxBytes });
        try
        {
            foreach (PackFile file in files)
            {
                if (TryRead(file, out string reason) is not { } data)
                {
                    Skip(file.Path, reason);
                    continue;
                }

                // Before the pack is opened, so that an object that no pack can hold leaves no empty one.
                if (WhyTooLong(file.Key, data, maxBytes) is { } why)
                {
                    Skip(file.Path, why);
                    continue;
                }

                if (IsThere(Opened(), file.Key, data))
                {
                    unchanged++;
                    continue;
                }

                Opened().Put(file.Key, data);
                count++;
                length += data.Length;
            }

            if (skipped == 0)
                Opened();
            if (isDurable)
                opened?.Flush();
            return new AddResult(count, unchanged, skipped, length, opened?.EvictedCount ?? 0);
        }
        finally
        {
            opened?.Dispose();
        }

        void Skip(string path, string reason)
        {
            skipped++;
            ErrorLine.Write($"{reason}, left out: path={path}.", ExitCodes.Failure);
        }
    }

    /// <summary>Why no pack of this length takes an object; null when one does.</summary>
    private static string? WhyTooLong(string key, byte[] data, long? maxBytes)
    {
        try
        {
            PackAppender.CheckLengths(PackKey.ToBytes(key), data, maxBytes ?? long.MaxValue);
            return null;
        }
        catch (ArgumentException error)
        {
            return error.Message.Replace($". (Parameter '{error.ParamName}')", "", StringComparison.Ordinal);
        }
    }

    /// <summary>Of two files of one key only the later one would be in the pack.</summary>
    private static void RefuseEqualKeys(List<PackFile> files)
    {
        foreach (IGrouping<string, PackFile> same in files.GroupBy(file => file.Key))
        {
            string[] paths = [.. same.Select(file => SystemPath.Full(file.Path)).Distinct()];
            if (paths.Length > 1)
            {
                throw new ToolException($"Two files have one key: key={same.Key}, path={paths[0]}, other={paths[1]}. "
                    + "Nothing was added. Add them one after the other, each with its own --prefix.");
            }
        }
    }

    /// <summary>
    /// True if the pack holds these bytes under this key: putting them again would only produce garbage. A damaged object is put
    /// again.
    /// </summary>
    private static bool IsThere(PackStore pack, string key, byte[] data)
    {
        try
        {
            if (!pack.TryGet(key, out IMemoryOwner<byte>? old))
                return false;
            using (old)
                return old.Memory.Span.SequenceEqual(data);
        }
        catch (Exception error) when (error is PackCorruptException or QueueDiskException)
        {
            return false;
        }
    }

    /// <summary>
    /// The file's bytes; null with the reason if they cannot be put: the others can. A pipe is no regular file, and reading it
    /// would wait.
    /// </summary>
    private static byte[]? TryRead(PackFile file, out string reason)
    {
        const int LengthMax = 256 * 1024 * 1024;
        reason = "It is gone";
        try
        {
            using ReadableFile? opened = ReadableFile.TryOpen(file.Path);
            if (opened is null)
                return null;
            long length = opened.Length;
            reason = $"Too long for a pack (length={length}, longest={LengthMax})";
            if (length > LengthMax)
                return null;
            byte[] data = new byte[length];
            int read = opened.ReadAt(data, 0);
            return read == length ? data : data[..read];
        }
        catch (QueueDiskException error)
        {
            reason = error.Errno is DiskErrors.EINVAL or DiskErrors.EISDIR
                ? PackFiles.NotRegular : $"Cannot be read (errno={error.Errno})";
            return null;
        }
    }
}

/// <summary>The result of `add`.</summary>
internal sealed record AddResult(long Added, long Unchanged, long Skipped, long Length, long Evicted);
