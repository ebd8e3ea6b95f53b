using System.Buffers;
using System.CommandLine;
using MappedFileQueues.Packs;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Pack;

/// <summary>`mfq pack extract`: writes a pack's objects as files, and nothing outside the named directory.</summary>
internal static class ExtractCommand
{
    public static Command Create()
    {
        Argument<string> pack = PackCommand.PackArgument();
        Argument<string> target = ToolOptions.PathArgument("DIR", "The directory for the files; created when it is missing.");
        Option<string> prefix = new("--prefix")
        {
            Description = "Only objects whose key begins with this.",
            DefaultValueFactory = _ => "",
        };
        Option<bool> overwrite = new("--overwrite") { Description = "Replace existing files." };
        Option<bool> allowStale = new("--allow-stale")
        {
            Description = "Where damage may hide a newer value, write the older one instead of failing.",
        };
        Command command = new(
            "extract",
            "Write a pack's objects as files. Keys that lead out of DIR are refused: `mfq pack extract texts.pack copies`.")
        {
            pack, target, prefix, overwrite, allowStale,
        };
        command.SetAction(parsed => Run(
            parsed.GetRequiredValue(pack), parsed.GetRequiredValue(target), parsed.GetRequiredValue(prefix),
            parsed.GetValue(overwrite), parsed.GetValue(allowStale), OutputOption.IsJson(parsed)));
        return command;
    }

    private static int Run(string packPath, string target, string prefix, bool overwrite, bool allowStale, bool isJson)
    {
        using PackReader pack = PackReader.Open(
            packPath, new PackReaderOptions { FollowWriter = false, AllowStaleValues = allowStale });
        string root = Directory.CreateDirectory(target).FullName;
        long count = 0;
        long length = 0;
        long failed = 0;
        var data = new ArrayBufferWriter<byte>();
        foreach (PackEntry entry in pack.Enumerate(prefix, OnDamage))
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

        if (isJson)
            OutputOption.WriteJson(new ExtractResult(count, failed, length), PackJsonContext.Default.ExtractResult);
        else
            OutputLine.Write($"extracted {Report.Count(count, "file")}, {Report.Bytes(length)}");
        return failed == 0 ? ExitCodes.Success : ExitCodes.Failure;

        void OnDamage(PackDamage damage) => Fail($"{damage.File} at {damage.Position}", damage.Reason);

        void Fail(string what, string reason)
        {
            failed++;
            ErrorLine.Write($"Not extracted: key={PrintableKey.Of(what)}, reason={reason.TrimEnd('.')}.", ExitCodes.Failure);
        }
    }

    /// <summary>
    /// The file has its name once it is whole. An existing one is replaced, not opened, so a link of that name is never followed.
    /// </summary>
    private static void Write(string path, ReadOnlySpan<byte> data, bool overwrite)
    {
        // Not the name and a suffix, which may be longer than a name may be.
        string temporary = Path.Combine(Path.GetDirectoryName(path)!, $".mfq-extract-{Environment.ProcessId}.tmp");
        try
        {
            using (FileStream file = new(temporary, FileMode.CreateNew, FileAccess.Write, FileShare.None, bufferSize: 0))
                file.Write(data);
            File.Move(temporary, path, overwrite);
        }
        finally
        {
            File.Delete(temporary);
        }
    }
}
