using System.Text.Json;

namespace MappedFileQueues.Tests.Tool;

/// <summary>The tables of .NET's own ways to move files, with a small file, so that no way stops working unseen.</summary>
public sealed class DotnetIoBenchTests
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(5);

    [Fact]
    public void BenchDotnetIo_Quick_ShowsEveryTableAndLeavesNoFiles()
    {
        using TempStore folder = new(createStoreFolder: true);
        string json = Path.Combine(folder.Root, "rows.json");
        using ChildProcess bench = ChildProcess.StartTool(
            "bench", "dotnet-io", "--quick", "--dir", folder.StorePath, "--json", json);

        bench.ExpectExit(0, s_deadline);

        JsonElement[] rows = [.. JsonElement.Parse(File.ReadAllText(json)).EnumerateArray()];
        string[] names = [.. rows.Select(row => row.GetProperty("name").GetString()!)];
        Assert.Equal(names.Length, names.Distinct().Count());
        Assert.Contains("open_file_openhandle", names);
        Assert.Contains("read_filestream_default_buffer_4_kib", names);
        Assert.Contains("copy_file_copy", names);
        Assert.All(
            ["small", "random", "write", "read_async", "write_async"],
            table => Assert.Contains(names, name => name.StartsWith(table + "_", StringComparison.Ordinal)));
        Assert.All(rows, row => Assert.True(row.GetProperty("value").GetDouble() > 0));
        Assert.All(rows, row => Assert.True(row.GetProperty("raw").GetDouble() > 0));
        Assert.Contains(bench.Lines, line => line.StartsWith("Copying a file", StringComparison.Ordinal));
        Assert.Contains(bench.Lines, line => line.StartsWith("* ", StringComparison.Ordinal));
        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }

    [Fact]
    public void BenchDotnetIo_UnknownTable_ExitsWithUsage()
    {
        using TempStore folder = new(createStoreFolder: true);
        using ChildProcess bench = ChildProcess.StartTool("bench", "dotnet-io", "--only", "nothing", "--dir", folder.StorePath);

        bench.ExpectExit(2);

        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }
}
