using System.Text.Json;
using MappedFileQueues.Files.Reading.Blocks;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Tool.Transfer;

/// <summary>`mfq export`: writes all messages of a store in a form that outlives this version.</summary>
internal static class ExportCommand
{
    private const string TemporaryInfix = ".export-";
    private const string TemporarySuffix = ".tmp";

    public static Command Create()
    {
        Argument<string> store = ToolOptions.Store("The store's directory; it may be in use.");
        Option<string?> to = ToolOptions.Path(
            "--to", "The file to write; it must not exist. Without it: standard output.", "FILE");
        Option<string> format = ToolOptions.OneOf(
            "--format",
            "jsonl: a line of JSON for each message, as `mfq consume --format json` writes it; binary: smaller, with checksums.",
            "jsonl", "binary");
        SourceOptions source = new();
        return new Command(
            "export",
            "Write the messages that a store holds now to a file: `mfq export orders --to orders.jsonl`. It only reads. "
                + "`mfq import` makes a store of it.")
        {
            store, to, format, source,
        }.Does(parsed =>
        {
            using Interruption interruption = new();
            ConsumePlan plan = source.Of(parsed, parsed.GetRequiredValue(store));
            bool isBinary = parsed.GetRequiredValue(format) == "binary";
            if (parsed.GetValue(to) is { } file)
            {
                TransferResult result = WriteToFile(plan, isBinary, SystemPath.Full(file), interruption.Token);
                return result.IsComplete ? result.Write(parsed, "Exported", interruption) : interruption.ExitCode;
            }

            // A reader of the pipe that goes is no error.
            bool isComplete = true;
            StandardOutput.Write(output => isComplete = Write(plan, isBinary, output, interruption.Token).IsComplete);
            return isComplete ? ExitCodes.Success : interruption.ExitCode;
        });
    }

    /// <summary>The file appears under its name when it is whole and on disk, and not at all otherwise.</summary>
    private static TransferResult WriteToFile(ConsumePlan plan, bool isBinary, string file, CancellationToken stopped)
    {
        if (File.Exists(file))
        {
            throw new ToolException(IsDeviceOrPipe(file)
                ? $"This is a device or a pipe: file={file}. Leave out --to, and redirect standard output to it."
                : $"The file exists: file={file}. Name another one, or remove it.");
        }

        if (Directory.Exists(file))
            throw new ToolException($"A directory has that name: file={file}. Name a file.");
        if (!Directory.Exists(Path.GetDirectoryName(file)))
            throw new ToolException($"The directory of the file is missing: file={file}. Make it, or name another one.");
        if (StorePaths.IsInside(plan.StorePath, file))
            throw new ToolException($"The file would be in the store itself: file={file}. Name one in another directory.");
        RemoveLeftovers(file);
        string temporary = $"{file}{TemporaryInfix}{Path.GetRandomFileName()[..8]}{TemporarySuffix}";
        bool isMade = false;
        try
        {
            TransferResult result;
            using (FileStream output = new(temporary, FileMode.CreateNew, FileAccess.Write, FileShare.None, 1 << 20))
            {
                isMade = true;
                result = Write(plan, isBinary, output, stopped);
                output.Flush(flushToDisk: true);
            }

            if (result.IsComplete)
            {
                File.Move(temporary, file, overwrite: false);
                using HeldDirectory? directory =
                    CurrentPlatform.Services.OpenDirectory(Path.GetDirectoryName(file)!, create: false, mode: null);
                directory?.FlushEntries("");
            }

            return result;
        }
        catch (Exception error)
            when ((isMade || !File.Exists(temporary)) && error.Message.Contains(temporary, StringComparison.Ordinal))
        {
            // The user has named the other file, and this one is gone.
            throw new ToolException(error.Message.Replace(temporary, file, StringComparison.Ordinal));
        }
        finally
        {
            if (isMade)
                File.Delete(temporary);
        }
    }

    /// <summary>
    /// Deletes what killed exports to this file have left. One that runs has its file open alone; between its end and the name
    /// the file can be opened, and then either this deletes nothing or that export says that its file is gone.
    /// </summary>
    private static void RemoveLeftovers(string file)
    {
        foreach (string left in Directory.EnumerateFiles(Path.GetDirectoryName(file)!))
        {
            if (!left.StartsWith(file + TemporaryInfix, StringComparison.Ordinal)
                || !left.EndsWith(TemporarySuffix, StringComparison.Ordinal))
                continue;
            try
            {
                new FileStream(left, FileMode.Open, FileAccess.ReadWrite, FileShare.None, 1, FileOptions.DeleteOnClose).Dispose();
            }
            catch (Exception error) when (error is IOException or UnauthorizedAccessException)
            {
                // It is in use, gone, or another user's.
            }
        }
    }

    /// <summary>True also for the names of standard output, whatever that is.</summary>
    private static bool IsDeviceOrPipe(string file)
    {
        if (Path.GetDirectoryName(file) is "/dev" or "/dev/fd")
            return true;
        try
        {
            ReadableFile.TryOpen(file)?.Dispose();
            return false;
        }
        catch (QueueDiskException error)
        {
            return error.Errno == DiskErrors.EINVAL;
        }
    }

    private static TransferResult Write(ConsumePlan plan, bool isBinary, Stream output, CancellationToken stopped)
    {
        using WholeStore source = new(plan);
        using ProgressLine progress = new("exporting");
        using MessageWriter writer = new(output, new MessageFormat(MessageForm.Json));
        if (isBinary)
            BinaryForm.WriteHeader(output, source.Header);
        else
            WriteLine(output, JsonSerializer.SerializeToUtf8Bytes(source.Header, ToolJson.Lines.StoreHeader));
        long count = 0;
        long bytes = 0;
        while (source.TryRead(progress, stopped, out ReadOnlySpan<byte> message))
        {
            if (isBinary)
                BinaryForm.WriteMessage(output, source.Headers.Block, message, source.MessageOffset);
            else
                writer.Write(message, source.Headers, source.MessageOffset);
            count++;
            bytes += message.Length;
        }

        if (stopped.IsCancellationRequested)
            return new TransferResult(count, bytes, IsComplete: false);
        if (isBinary)
            BinaryForm.WriteEnd(output, count);
        else
            WriteLine(output, JsonSerializer.SerializeToUtf8Bytes(new StoreTrailer(count), ToolJson.Lines.StoreTrailer));
        output.Flush();
        return new TransferResult(count, bytes, IsComplete: true);
    }

    private static void WriteLine(Stream output, byte[] json)
    {
        output.Write(json);
        output.WriteByte((byte)'\n');
    }
}
