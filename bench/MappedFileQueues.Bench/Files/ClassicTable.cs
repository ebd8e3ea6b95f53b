using System.Globalization;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;

namespace MappedFileQueues.Bench.Files;

/// <summary>
/// The classic table of writing files: blocks of 4 KiB, first and second pass, by what the file has on disk before, by when the
/// disk is asked (a table each), and by the way of writing; in MiB/s with the closing.
/// </summary>
internal static class ClassicTable
{
    public const string Role = "files_table";

    private const string Unit = "MiB/s";

    /// <summary>A flush for each block of 1 GiB would take minutes a cell.</summary>
    private const int EachShare = 128;

    private const int QuickShare = 8;
    private const long WarmUpLength = 64 * BlockRun.BlockLength;

    private static readonly (BlockSync Sync, string Name)[] s_syncs =
        [(BlockSync.None, "none"), (BlockSync.AtEnd, "at the end"), (BlockSync.Each, "each write")];

    /// <summary>In a child process: every cell once, as a sample whose name is row and column.</summary>
    public static IReadOnlyList<Samples> Measure(ChildContext context)
    {
        string path = context.Path("blocks");
        foreach (string way in BlockFiles.Names)
            WarmUp.UntilCompiled(() => BlockRun.WriteChecked(way, path, FileRoom.None, WarmUpLength, BlockSync.None));
        List<Samples> cells = [];
        foreach (FileRoom room in FileRoom.All)
        {
            foreach ((BlockSync sync, string name) in s_syncs)
            {
                int share = (context.Task.IsQuick ? QuickShare : 1) * (sync == BlockSync.Each ? EachShare : 1);
                long length = Math.Max(1, context.Bytes / share / BlockRun.BlockLength) * BlockRun.BlockLength;
                foreach (string way in BlockFiles.Names)
                {
                    cells.Add(Cell(room.Name, name, "first", way, PassOf(path, way, room, length, sync)));
                    if (room == FileRoom.None)
                        cells.Add(Cell(room.Name, name, "second", way, PassOf(path, way, FileRoom.Reused, length, sync)));
                }
            }
        }

        return cells;
    }

    public static void Write(BenchRun run)
    {
        ILookup<string, Samples> tables = run.Measure(Role, processCount: 1).ToLookup(cell => cell.Name.Split('|')[0]);
        Console.Out.WriteLine($"\nBlocks of 4 KiB, {Unit}, one run; with a flush behind each write, of less data.");
        string columns = string.Concat(BlockFiles.Names.Select(name => name.PadLeft(18)));
        foreach (IGrouping<string, Samples> table in tables)
        {
            Console.Out.WriteLine($"\nFlush: {table.Key}");
            Console.Out.WriteLine($"{"room",-12}{"pass",-8}{columns}");
            foreach (IGrouping<string, Samples> row in table.GroupBy(cell => cell.Name[..cell.Name.LastIndexOf('|')]))
            {
                string[] head = row.Key.Split('|');
                string values = string.Concat(
                    row.Select(cell => cell.Ours[0].ToString("N1", CultureInfo.InvariantCulture).PadLeft(18)));
                Console.Out.WriteLine($"{head[1],-12}{head[2],-8}{values}");
            }
        }
    }

    private static Samples Cell(string room, string sync, string pass, string way, double speed) =>
        new($"{sync}|{room}|{pass}|{way}", Unit, [], [speed]);

    private static double PassOf(string path, string way, FileRoom room, long length, BlockSync sync)
    {
        double each = BlockRun.WriteChecked(way, path, room, length, sync);
        return BlockRun.BlockLength / (each / 1e9) / (1 << 20);
    }
}
