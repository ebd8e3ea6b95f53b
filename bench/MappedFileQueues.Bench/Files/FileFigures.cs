namespace MappedFileQueues.Bench.Files;

/// <summary>The figures of the group `files`, in the order of measuring. docs/BENCHMARKS.md says what each name means.</summary>
internal static class FileFigures
{
    public static BenchSuite Suite { get; } = new(
        "files",
        "Measures files written and read beside what a user would take instead: bare calls, FileStream, RandomAccess.",
        [
            BenchSuite.Group(AppendBlocksFigure.FirstName),
            BenchSuite.Group(AppendBlocksFigure.SecondName),
            BenchSuite.Group(LinesFigure.OneName, LinesFigure.DefaultName, LinesFigure.BestName)
                with { Note = LineFile.Written.Note },
            Lines(4, LineFile.Written),
            Lines(1, LineFile.New),
            Lines(4, LineFile.New),
            Lines(1, LineFile.Default),
            Lines(4, LineFile.Default),
            BenchSuite.Group(LogLineFigure.Name),
            BenchSuite.Group(ReadSequentialFigure.Names),
            BenchSuite.Group(ReadLinesFigure.Name),
        ],
        ClassicTable.Write);

    private static BenchFigureGroup Lines(int threadCount, LineFile kind) =>
        BenchSuite.Group(LinesFigure.NameOf(threadCount, kind)) with { IsFlushed = kind.IsFlushed, Note = kind.Note };
}
