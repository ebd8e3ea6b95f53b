using System.Diagnostics;

namespace MappedFileQueues.Demo;

/// <summary>Finds the input: the named files, or all text files below a directory, always in the same order.</summary>
internal static class InputFinder
{
    private const int ProbeLength = 8 * 1024;

    /// <summary>Version control and build output: no person wrote that text.</summary>
    private static readonly string[] s_foldersLeftOut = [".git", "bin", "obj"];

    /// <summary>In a very large directory the search stops here; the files found by then are plenty.</summary>
    private static readonly TimeSpan s_searchTimeMax = TimeSpan.FromSeconds(3);

    /// <summary>The files as named, without empty ones. A name of anything but a regular file is an error.</summary>
    public static List<InputFile> FromNames(IEnumerable<string> names)
    {
        List<InputFile> files = [];
        foreach (string name in names)
        {
            string path = Path.GetFullPath(name);
            if (Directory.Exists(path))
                throw new ToolException($"The demo reads files, and this is a directory: path={path}. Name the files in it.");
            using FileStream file = File.OpenRead(path);
            if (!file.CanSeek)
                throw new ToolException($"The demo reads its input more than once, and this is not a regular file: path={path}.");
            if (Describe(file, path) is { } input)
                files.Add(input);
        }

        if (files.Count == 0)
            throw new ToolException("The files hold no lines. Name a text file.");
        return files;
    }

    /// <summary>
    /// All text files below a directory. A file is text if its first 8 KiB hold no zero byte. Links are not followed; unreadable
    /// files and the demo's own directory are left out.
    /// </summary>
    public static List<InputFile> Below(string folder, string ownFolder)
    {
        List<InputFile> files = [];
        long start = Stopwatch.GetTimestamp();
        Stack<string> folders = new([Path.GetFullPath(folder)]);
        while (folders.TryPop(out string? current) && Stopwatch.GetElapsedTime(start) < s_searchTimeMax)
        {
            DirectoryInfo[] inner;
            FileInfo[] found;
            try
            {
                DirectoryInfo directory = new(current);
                inner = directory.GetDirectories();
                found = directory.GetFiles();
            }
            catch (Exception exception) when (exception is IOException or UnauthorizedAccessException)
            {
                continue;
            }

            foreach (FileInfo file in found.OrderBy(file => file.Name, StringComparer.Ordinal))
            {
                if (file.LinkTarget is null && file.Length > 0 && DescribeText(file.FullName) is { } input)
                    files.Add(input);
            }

            foreach (DirectoryInfo next in inner.OrderByDescending(next => next.Name, StringComparer.Ordinal))
            {
                if (next.LinkTarget is null && !s_foldersLeftOut.Contains(next.Name) && next.FullName != ownFolder)
                    folders.Push(next.FullName);
            }
        }

        if (files.Count == 0)
            throw new ToolException($"No text file found: directory={Path.GetFullPath(folder)}. Name one.");
        return files;
    }

    private static InputFile? DescribeText(string path)
    {
        try
        {
            using FileStream file = File.OpenRead(path);
            byte[] first = new byte[ProbeLength];
            int length = file.CanSeek ? file.ReadAtLeast(first, first.Length, throwOnEndOfStream: false) : 0;
            return length == 0 || first.AsSpan(0, length).Contains((byte)0) ? null : Describe(file, path);
        }
        catch (Exception exception) when (exception is IOException or UnauthorizedAccessException)
        {
            return null;
        }
    }

    private static InputFile? Describe(FileStream file, string path)
    {
        long length = file.Length;
        if (length == 0)
            return null;
        Span<byte> last = stackalloc byte[1];
        RandomAccess.Read(file.SafeFileHandle, last, length - 1);
        return new InputFile(path, length, last[0] == (byte)'\n');
    }
}
