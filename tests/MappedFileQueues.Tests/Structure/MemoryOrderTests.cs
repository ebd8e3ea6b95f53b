namespace MappedFileQueues.Tests.Structure;

/// <summary>
/// Each ordered access has a partner, and both say so.
/// <list type="number">
/// <item>A call of SharedWord's ReadAcquire, WriteRelease, CompareExchange, Exchange, Add, RaiseTo or SetBits anywhere in the
/// core, and any call of Volatile or Interlocked in Log and Segments, has a comment <c>// P7 acquire: …</c> on its line or
/// ending in the three lines above it. The orders are acquire, release, full and relaxed; what is read with acquire is tagged
/// acquire (or relaxed, where the order is not needed), and what is written with release likewise.</item>
/// <item>Unless relaxed, the comment goes on with <c>pairs with P8 release in Type.Member</c>. That sentence may name several ids
/// and places; a place may also be a type, or a member of the type around. The comment may take several lines.</item>
/// <item>What it pairs with is there: the code has the other side of that id (acquire with release, either with full, full with
/// any of the three), and the type, or the member of it, that is named behind "in" or "and" has a tag of one of the ids.</item>
/// <item>docs/MEMORY_ORDER.md has a row <c>| P7 | writer side: Type.Member | reader side: Type.Member | why |</c> for every id in
/// the code and none for others. Each Type.Member in the first two cells has a tag of that id, or of one that pairs with
/// it. A cell may name several places or, for the kernel's side, none; one of the two names at least one.</item>
/// </list>
/// An id may stand at several places, and have several rows. A constructor is called Type.Type.
/// </summary>
public sealed class MemoryOrderTests
{
    private const string TablePath = "docs/MEMORY_ORDER.md";

    private static readonly Lazy<MemoryOrderRules> s_core = new(() => new MemoryOrderRules(
        SourceCompilation.Core, File.Exists(Repository.PathOf(TablePath)) ? File.ReadAllText(Repository.PathOf(TablePath)) : ""));

    [Fact]
    public void Core_OrderedAccesses_AllCarryTheirOrder() => Violations.None(s_core.Value.FindUntaggedAccesses());

    [Fact]
    public void Core_Tags_AllHaveTheirOtherSide() => Violations.None(s_core.Value.FindBrokenPairs());

    [Fact]
    public void Core_Table_NamesWhatTheCodeHas() => Violations.None(s_core.Value.FindTableErrors());

    [Fact]
    public void Rules_WholePair_FindNothing()
    {
        MemoryOrderRules rules = Rules(
            "// P1 release: publishes; pairs with P1\n// acquire in Reader.Read.\n _word.WriteRelease(1);",
            "return _word.ReadAcquire(); // P1 acquire: sees it; pairs with P1 release in Writer.Write.",
            "| P1 | `Writer.Write` | Reader.Read, a load | the payload |");

        Violations.None(rules.FindUntaggedAccesses().Concat(rules.FindBrokenPairs()).Concat(rules.FindTableErrors()));
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
    [InlineData("| P1 | Writer.Write | Reader.Gone | why |")]
    [InlineData("| P1 | Writer.Write | Other.Read | why |")]
    [InlineData("| P1 | Writer.Read | Reader.Read | why |")]
    [InlineData("| P1 | Writer.Write | Reader.Read | |")]
    [InlineData("| P1 | the writer | the reader | why |")]
    [InlineData("| P1 | Writer.Write | Reader.Read | why |\n| P2 | Writer.Write | Reader.Read | why |")]
    public void FindTableErrors_TableAndCodeDiffer_IsFound(string table) =>
        Assert.NotEmpty(Rules(
            "_word.WriteRelease(1); // P1 release: publishes; pairs with P1 acquire in Reader.Read.",
            "return _word.ReadAcquire(); // P1 acquire: sees it; pairs with P1 release in Writer.Write.",
            table).FindTableErrors());

    private static MemoryOrderRules Rules(string write, string read, string table) => new(
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
        table);
}
