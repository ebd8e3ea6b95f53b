namespace MappedFileQueues.Bench.Packs;

/// <summary>The figures of the group `packs`, in the order of measuring. docs/BENCHMARKS.md says what each name means.</summary>
internal static class PackFigures
{
    public static BenchSuite Suite { get; } = new(
        "packs",
        "Measures packs beside what a user would take instead: a file for each object, a dictionary, bare reads.",
        [
            BenchSuite.Group(SmallFilesFigure.PutName, SmallFilesFigure.WarmName, SmallFilesFigure.ReadName),
            BenchSuite.Group(SmallFilesFigure.ColdName),
            BenchSuite.Group(LongPutFigure.Name, LongPutFigure.LongestName),
            BenchSuite.Group(ManyObjectsFigure.BytesName, ManyObjectsFigure.OpenName, ManyObjectsFigure.GetName),
        ]);
}
