using System.Buffers;
using MappedFileQueues.Packs;

namespace MappedFileQueues.Tool.Pack;

/// <summary>`mfq pack extract`: writes a pack's objects as files, and nothing outside the named directory.</summary>
internal static class ExtractCommand
{
    public static Command Create()
    {
        Argument<string> pack = PackCommand.PackArgument();
        Argument<string> target = ToolOptions.PathArgument("DIR", "The directory for the files; created when it is missing.");
        Option<string> prefix = PackCommand.PrefixOption();
        Option<bool> overwrite = ToolOptions.Flag("--overwrite", "Replace existing files.");
        Option<bool> allowStale = PackCommand.AllowStaleOption();
        return new Command(
            "extract",
            "Write a pack's objects as files. Keys that lead out of DIR are refused: `mfq pack extract texts.pack copies`.")
        {
            pack, target, prefix, overwrite, allowStale,
        }.Does(parsed =>
        {
            using PackReader reader = LookCommands.Open(parsed.GetRequiredValue(pack), parsed.GetValue(allowStale));
            ExtractResult result = Extract(
                reader, parsed.GetRequiredValue(target), parsed.GetRequiredValue(prefix), parsed.GetValue(overwrite));
            return Result.Write(
                parsed, result, ToolJson.Lines.ExtractResult,
                $"extracted {Report.Count(result.Extracted, "file")}, {Report.Bytes(result.Length)}",
                result.Failed == 0 ? ExitCodes.Success : ExitCodes.Failure);
        });
    }

    private static ExtractResult Extract(PackReader pack, string target, string prefix, bool overwrite)
    {
        string root = Directory.CreateDirectory(target).FullName;
        long count = 0;
        long length = 0;
        long failed = 0;
        var data = new ArrayBufferWriter<byte>();
        foreach (PackEntry entry in pack.Enumerate(
            prefix, damage => Fail($"{damage.File} at {damage.Position}", damage.Reason)))
        {
            string key = entry.Key;
            try
            {
                data.ResetWrittenCount();
                if (SafeName.TrySplit(key, out string reason) is { } parts
                    && SafeName.TryMakeWay(root, parts, out reason) is { } path)
                {
                    if (!pack.TryGet(entry.KeyBytes.Span, data))
                        continue;
                    Write(path, data.WrittenSpan, overwrite);
                    count++;
                    length += data.WrittenCount;
                }
                else
                {
                    Fail(key, reason);
                }
            }
            catch (Exception error) when (error is IOException or UnauthorizedAccessException)
            {
                Fail(key, error.Message);
            }
        }

        return new ExtractResult(count, failed, length);

        void Fail(string what, string reason)
        {
            failed++;
            ErrorLine.Write(
                $"Not extracted: key={PackCommand.Printable(what)}, reason={reason.TrimEnd('.')}.", ExitCodes.Failure);
        }
    }

    /// <summary>
    /// The file has its name once it is whole. An existing one is replaced, not opened, so a link of that name is never followed.
    /// </summary>
    private static void Write(string path, ReadOnlySpan<byte> data, bool overwrite)
    {
        // Not the name and a suffix, which may be longer than a name may be, nor the process id: in a container each run has the
        // same, and a killed one has left its file.
        string temporary = Path.Combine(Path.GetDirectoryName(path)!, $".mfq-extract-{Path.GetRandomFileName()[..8]}.tmp");
        FileStream file = new(temporary, FileMode.CreateNew, FileAccess.Write, FileShare.None, bufferSize: 0);
        try
        {
            using (file)
                file.Write(data);
            File.Move(temporary, path, overwrite);
        }
        finally
        {
            File.Delete(temporary);
        }
    }
}

/// <summary>The result of `extract`.</summary>
internal sealed record ExtractResult(long Extracted, long Failed, long Length);
