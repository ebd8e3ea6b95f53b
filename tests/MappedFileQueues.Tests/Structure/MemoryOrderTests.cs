namespace MappedFileQueues.Tests.Structure;

/// <summary>
/// Each ordered access has a partner, and both say so.
/// <list type="number">
/// <item>A call of SharedWord's ReadAcquire, WriteRelease, CompareExchange, Exchange, Add, RaiseTo or SetBits anywhere in the
/// core, and any call of Volatile or Interlocked in Log and Segments, has a comment <c>// P7 acquire: …</c> on its line or
/// ending in the three lines above it. The orders are acquire, release, full and relaxed; what is read with acquire is tagged
/// acquire (or relaxed, where the order is not needed), and what is written with release likewise.</item>
/// <item>Unless relaxed, the comment continues with <c>pairs with P8 release in Type.Member</c>. That sentence may name several
/// ids and places; a place may also be a type, or a member of the type around. The comment may take several lines.</item>
/// <item>What it pairs with is there: the code has the other side of that id (acquire with release, either with full, full with
/// any of the three), and the type, or the member of it, that is named behind "in" or "and" has a tag of one of the ids.</item>
/// <item>docs/DESIGN.md, section 9, says what each id orders, and names no others.</item>
/// </list>
/// An id may be at several places. A constructor is called Type.Type. With MFQ_MEMORY_ORDER=FILE in the environment, the table of
/// all places is written to that file.
/// </summary>
[Trait("Category", "Slow")]
public sealed class MemoryOrderTests
{
    private static readonly Lazy<MemoryOrderRules> s_core = new(() => new MemoryOrderRules(
        SourceCompilation.Core, File.ReadAllText(Repository.PathOf("docs/DESIGN.md"))));

    [Fact]
    public void Core_OrderedAccesses_AllCarryTheirOrder() => Violations.None(s_core.Value.FindUntaggedAccesses());

    [Fact]
    public void Core_Tags_AllHaveTheirOtherSide() => Violations.None(s_core.Value.FindBrokenPairs());

    [Fact]
    public void Core_Ids_AreThoseOfThePage() => Violations.None(s_core.Value.FindUnknownIds());

    [Fact]
    public void Core_Table_NamesEachPlace()
    {
        string table = s_core.Value.Table();
        if (Environment.GetEnvironmentVariable("MFQ_MEMORY_ORDER") is { Length: > 0 } file)
            File.WriteAllText(file, $"# Memory order\n\nMade of the comments in the sources.\n\n{table}");

        Assert.Contains("| P3 | full | `SharedAppender.Publish` | ", table, StringComparison.Ordinal);
    }

    [Fact]
    public void Rules_WholePair_FindNothing()
    {
        MemoryOrderRules rules = Rules(
            "// P1 release: publishes; pairs with P1\n// acquire in Reader.Read.\n _word.WriteRelease(1);",
            "return _word.ReadAcquire(); // P1 acquire: sees it; pairs with P1 release in Writer.Write.",
            "- P1: the payload");

        Violations.None(rules.FindUntaggedAccesses().Concat(rules.FindBrokenPairs()).Concat(rules.FindUnknownIds()));
    }

    [Theory]
    [InlineData("in Reader")]
    [InlineData("in Reader, and below")]
    [InlineData("and P2 full")]
    public void FindBrokenPairs_OtherWordsForTheSame_AreUnderstood(string place) =>
        Assert.Empty(Rules(
            $"// P1 release: publishes; pairs with P1 acquire {place}.\n _word.WriteRelease(1);",
            "return _word.ReadAcquire(); // P1 acquire: pairs with P1 release in Writer.\n // P2 full: pairs with P1 acquire.",
            "").FindBrokenPairs());

    [Theory]
    [InlineData("_word.WriteRelease(1);")]
    [InlineData("// P1 acquire: pairs with P1 acquire in Reader.Read.\n _word.WriteRelease(1);")]
    [InlineData("// P1 release: pairs with P1 acquire in Reader.Read.\n\n\n\n\n _word.WriteRelease(1);")]
    [InlineData("Volatile.Write(ref _number, 1);")]
    [InlineData("Interlocked.MemoryBarrier();")]
    [InlineData("string tag = \"// P1 release:\"; _word.WriteRelease(1);")]
    public void FindUntaggedAccesses_NoFittingTagNear_IsFound(string write) =>
        Assert.Single(Rules(write, "return 0;", "").FindUntaggedAccesses());

    [Theory]
    [InlineData("// P1 release: publishes.")]
    [InlineData("// P1 release: publishes. In Reader.Read somebody reads it.")]
    [InlineData("// P1 release: publishes; pairs with P2 acquire in Reader.Read.")]
    [InlineData("// P1 release: publishes; pairs with P1 acquire in Reader.Gone.")]
    [InlineData("// P1 release: publishes; pairs with P1 acquire in Other.Read.")]
    [InlineData("// P1 release: publishes; pairs with P1 acquire in Reader.Untagged.")]
    [InlineData("// P1 release: publishes; pairs with P1 acquire in Nowhere.")]
    [InlineData("// P1 release: publishes; pairs with P1 acquire in Reader and Other.")]
    public void FindBrokenPairs_OtherSideMissing_IsFound(string tag) =>
        Assert.NotEmpty(Rules(
            $"{tag}\n _word.WriteRelease(1);",
            "return _word.ReadAcquire(); // P1 acquire: sees it; pairs with P1 release in Writer.Write.",
            "").FindBrokenPairs());

    [Fact]
    public void FindBrokenPairs_BothSidesAcquire_IsFound() =>
        Assert.NotEmpty(Rules(
            "_ = _word.ReadAcquire(); // P1 acquire: sees it; pairs with P1 release in Reader.Read.",
            "return _word.ReadAcquire(); // P1 acquire: sees it; pairs with P1 release in Writer.Write.",
            "").FindBrokenPairs());

    [Theory]
    [InlineData("")]
    [InlineData("- P2: another")]
    [InlineData("- P1, P2: why")]
    [InlineData("- P1: why\n- P1: again")]
    public void FindUnknownIds_PageAndCodeDiffer_IsFound(string page) =>
        Assert.NotEmpty(Rules(
            "_word.WriteRelease(1); // P1 release: publishes; pairs with P1 acquire in Reader.Read.",
            "return _word.ReadAcquire(); // P1 acquire: sees it; pairs with P1 release in Writer.Write.",
            page).FindUnknownIds());

    private static MemoryOrderRules Rules(string write, string read, string page) => new(
        SourceCompilation.Compile(
        [
            (SourceCompilation.CoreFolder + "Memory/SharedWord.cs",
                "struct SharedWord { long _w; public long ReadAcquire() => Volatile.Read(ref _w); "
                + "public void WriteRelease(long v) => Volatile.Write(ref _w, v); }"),
            (SourceCompilation.CoreFolder + "Log/Writer.cs",
                $"class Writer {{ SharedWord _word; long _number; void Write() {{\n{write}\n}} void Read() {{ }} }}"),
            (SourceCompilation.CoreFolder + "Log/Reader.cs",
                $"class Reader {{ SharedWord _word; void Untagged() {{ }} long Read() {{\n{read}\n}} }}"),
            (SourceCompilation.CoreFolder + "Log/Other.cs", "class Other { void Read() { } }"),
        ]),
        page);
}
