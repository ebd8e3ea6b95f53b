namespace MappedFileQueues.Tool.Bench.Files;

/// <summary>The figures of `mfq bench files`, in the order of measuring. docs/BENCHMARKS.md says what each name means.</summary>
internal static class FileFigures
{
    public static BenchSuite Suite { get; } = new(
        "files",
        "Measures files written and read beside what a user would take instead: bare calls, FileStream, RandomAccess.",
        [
            BenchSuite.Group(AppendBlocksFigure.FirstName),
            BenchSuite.Group(AppendBlocksFigure.SecondName),
            BenchSuite.Group(LinesFigure.OneName, LinesFigure.DefaultName, LinesFigure.BestName),
            BenchSuite.Group(LinesFigure.FourName),
            BenchSuite.Group(LogLineFigure.Name),
            BenchSuite.Group(ReadSequentialFigure.Names),
            BenchSuite.Group(ReadLinesFigure.Name),
        ],
        ClassicTable.Write);
}
