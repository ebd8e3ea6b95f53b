using System.Text.Json;

namespace MappedFileQueues.Tests.Tool;

/// <summary>The tables of .NET's own ways to move files, with a small file, so that no way stops working unseen.</summary>
[Trait("Category", "Slow")]
public sealed class DotnetIoBenchTests
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(5);

    [Fact]
    public void BenchDotnetIo_Quick_ShowsEveryTableAndLeavesNoFiles()
    {
        using TempStore folder = new(createStoreFolder: true);
        string json = Path.Combine(folder.Root, "rows.json");
        using ChildProcess bench = ChildProcess.StartBench(
            "dotnet-io", "--quick", "--repetitions", "1", "--no-warm-up", "--dir", folder.StorePath, "--json", json);

        bench.ExpectExit(0, s_deadline);

        JsonElement[] rows = BenchResults.Of(json);
        string[] names = [.. rows.Select(row => row.GetProperty("name").GetString()!)];
        Assert.Equal(names.Length, names.Distinct().Count());
        Assert.Contains("open_file_openhandle", names);
        Assert.Contains("read_filestream_default_buffer_4_kib", names);
        Assert.Contains("copy_file_copy", names);
        Assert.Contains("lines_file_readlinesasync", names);
        Assert.Contains("write_file_writealltext_made_before", names);
        Assert.Contains("write_memorymappedfile_copied_by_64_kib", names);
        Assert.Contains("write_randomaccess_write_16_times_4_kib_in_a_list", names);
        Assert.Contains("write_flushed_randomaccess_flushtodisk_which_is_fsync", names);
        if (OperatingSystem.IsLinux())
        {
            Assert.Contains("flush_each_new_write_fdatasync", names);
            AssertRowOrNote("write_flushed_open_2_o_direct_o_sync", "O_DIRECT | O_SYNC is left out");
            AssertRowOrNote("flush_each_old_o_direct_o_sync", "old, O_DIRECT | O_SYNC is left out");
            AssertRowOrNote("copy_copy_file_range_2", "copy_file_range(2) is left out");
            AssertRowOrNote("copy_ioctl_ficlone", "ioctl FICLONE is left out");
            AssertRowOrNote("ext4_journal_new_write_fdatasync", "The table is left out");
            AssertRowOrNote("ext4_no_journal_new_write_fdatasync", "The table is left out");
        }

        Assert.All(
            ["small", "random", "write", "read_async", "write_async"],
            table => Assert.Contains(names, name => name.StartsWith(table + "_", StringComparison.Ordinal)));
        Assert.All(rows, row => Assert.True(row.GetProperty("value").GetDouble() > 0));
        Assert.All(rows, row => Assert.True(row.GetProperty("raw").GetDouble() > 0));
        Assert.Contains(bench.Lines, line => line.StartsWith("Copying a file", StringComparison.Ordinal));
        Assert.Contains(bench.Lines, line => line.StartsWith("* ", StringComparison.Ordinal));
        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));

        // What this machine, or the rights of who runs it, does not offer is said in its place.
        void AssertRowOrNote(string row, string note) => Assert.True(
            names.Contains(row) || bench.Lines.Any(line => line.StartsWith(note, StringComparison.Ordinal)),
            $"Neither the row {row} nor a note that it is left out.");
    }

    [Fact]
    public void BenchDotnetIo_UnknownTable_ExitsWithUsage()
    {
        using TempStore folder = new(createStoreFolder: true);
        using ChildProcess bench = ChildProcess.StartBench("dotnet-io", "--only", "nothing", "--dir", folder.StorePath);

        bench.ExpectExit(2);

        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }
}
