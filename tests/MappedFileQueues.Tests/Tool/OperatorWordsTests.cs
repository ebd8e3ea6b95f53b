using System.Text.RegularExpressions;
using MappedFileQueues.RabbitMQ;
using MappedFileQueues.Tests.Structure;
using MappedFileQueues.Tool.Output;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// Remedies for who sits at a shell. `mfq` once said "Set CreateIfMissing", "raise LockTimeout", "use OpenConsumerAsync": of no
/// use where nobody writes code.
/// </summary>
[Trait("Category", "Slow")]
public sealed partial class OperatorWordsTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// Every text of the queue's and the packs' sources: none may reach the shell with a name of the API in it.
    /// </summary>
    [Fact]
    public void Of_EveryTextOfTheCore_NamesNothingThatOnlyAProgrammerCanUse()
    {
        HashSet<string> names = PublicNames();
        Assert.Contains("LockTimeout", names);

        Violations.None(
            from tree in SourceCompilation.Core.SyntaxTrees
            where !tree.FilePath.StartsWith("src/MappedFileQueues.Files/", StringComparison.Ordinal)
            from token in tree.GetRoot().DescendantTokens()
            where token.IsKind(SyntaxKind.StringLiteralToken) || token.IsKind(SyntaxKind.InterpolatedStringTextToken)
            where token.ValueText.Contains(' ', StringComparison.Ordinal)
            let said = OperatorWords.Of(token.ValueText)
            from word in Word().Matches(said).Select(match => match.Value).Where(names.Contains)
            select $"{tree.FilePath}: \"{said}\" names {word}: give OperatorWords what to say in its place.");
    }

    /// <summary>The bridge's errors named OnSourceChange and SegmentSize, which are no options of a command.</summary>
    [Fact]
    public void Of_EveryTextOfTheBridge_NamesNoOptionOfTheLibrary()
    {
        HashSet<string> names = [.. new[] { typeof(StreamForwarderOptions), typeof(StreamFetcherOptions) }
            .SelectMany(type => type.GetProperties()).Select(property => property.Name).Where(name => TwoWords().IsMatch(name))];
        Assert.Contains("OnSourceChange", names);

        Violations.None(
            from path in Repository.SourceFiles("src/MappedFileQueues.RabbitMQ/", "*.cs")
            from token in SourceCompilation.Parse(path, File.ReadAllText(path)).GetRoot().DescendantTokens()
            where token.IsKind(SyntaxKind.StringLiteralToken) || token.IsKind(SyntaxKind.InterpolatedStringTextToken)
            where token.ValueText.Contains(' ', StringComparison.Ordinal)
            let said = OperatorWords.Of(token.ValueText)
            from word in Word().Matches(said).Select(match => match.Value).Where(names.Contains)
            select $"{path}: \"{said}\" names {word}: give OperatorWords what to say in its place.");
    }

    [Fact]
    public void Consume_NameIsHeld_NamesTheOptionThatWaitsAndItWaits()
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath });
        queue.Producer.Produce("held"u8);
        MappedFileConsumer holder = queue.OpenConsumer("c");
        string[] asHolder = ["consume", _temp.StorePath, "--consumer", "c", "--commit"];

        ToolRun refused = ToolRun.OfProcess(asHolder);
        refused.ExpectError("--lock-timeout", $"{Environment.ProcessId}");
        Assert.DoesNotContain("LockTimeout", refused.Error, StringComparison.Ordinal);
        ToolRun.Of([.. asHolder, "--lock-timeout", "50ms"]).ExpectError("waited=00:00:00.0500000");

        using ChildProcess waiting = ChildProcess.StartTool([.. asHolder, "--lock-timeout", "infinite"]);
        Eventually.True(() => queue.GetInfo().AttachedProcesses.Contains(waiting.Id), "it has the store open");
        holder.Dispose();
        waiting.ExpectExit();
        Assert.Equal(["held"], waiting.Lines);
    }

    [Fact]
    public void Produce_ProducersLockIsHeld_NamesTheOptionThatWaits()
    {
        using MappedFileQueue queue = new(
            new MappedFileQueueOptions { StorePath = _temp.StorePath, ProducerMode = ProducerMode.Exclusive });
        queue.Producer.Produce("first"u8);

        ToolRun.Of("produce", _temp.StorePath, "--messages", "1").ExpectError("--lock-timeout");
    }

    private static HashSet<string> PublicNames()
    {
        IEnumerable<INamedTypeSymbol> types = Types(SourceCompilation.Core.Assembly.GlobalNamespace)
            .Where(type => type.DeclaredAccessibility == Accessibility.Public);
        HashSet<string> names = ["Seek", "Dispose", "Produce", "Consume"];
        foreach (INamedTypeSymbol type in types)
        {
            names.UnionWith(type.GetMembers().Append(type)
                .Where(symbol => symbol.DeclaredAccessibility == Accessibility.Public)
                .Select(symbol => symbol.Name).Where(name => TwoWords().IsMatch(name)));
        }

        return names;
    }

    private static IEnumerable<INamedTypeSymbol> Types(INamespaceSymbol space) =>
        space.GetTypeMembers().Concat(space.GetNamespaceMembers().SelectMany(Types));

    [GeneratedRegex("[A-Z][A-Za-z0-9]+")]
    private static partial Regex Word();

    [GeneratedRegex("^[A-Z][a-z0-9]+[A-Z]")]
    private static partial Regex TwoWords();
}
