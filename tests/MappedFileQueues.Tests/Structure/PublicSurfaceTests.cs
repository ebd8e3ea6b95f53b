using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;

namespace MappedFileQueues.Tests.Structure;

/// <summary>
/// What users can see changes only on purpose: it equals the checked-in listing. With MFQ_UPDATE_SURFACE=1 in the environment
/// the test writes the listing instead, for the difference to be reviewed.
/// </summary>
public sealed class PublicSurfaceTests
{
    private const string Folder = "tests/MappedFileQueues.Tests/Structure/";

    public static TheoryData<string> Packages => [.. PublicSurface.Packages];

    [Theory]
    [MemberData(nameof(Packages))]
    public void Package_PublicSurface_EqualsTheListing(string package)
    {
        string listingPath = $"{Folder}PublicSurface{package["MappedFileQueues".Length..]}.txt";
        string path = Repository.PathOf(listingPath);
        string surface = PublicSurface.Of(
            MetadataReference.CreateFromFile(PublicSurface.PathOf(package)),
            PublicSurface.Packages.Where(other => other != package)
                .Select(other => MetadataReference.CreateFromFile(PublicSurface.PathOf(other))));
        if (Environment.GetEnvironmentVariable("MFQ_UPDATE_SURFACE") == "1")
            File.WriteAllText(path, surface);

        string[] expected = File.ReadAllLines(path);
        string[] actual = surface.Split('\n')[..^1];
        IEnumerable<string> differences =
            expected.Except(actual).Select(line => $"- {line}").Concat(actual.Except(expected).Select(line => $"+ {line}"));
        Assert.True(
            expected.SequenceEqual(actual),
            $"The public surface differs from {listingPath}; if that is meant, run this test with MFQ_UPDATE_SURFACE=1.\n"
            + string.Join('\n', differences));
    }

    [Fact]
    public void Of_TypesOfEachKind_ListsWhatACallersCompilerSees()
    {
        CSharpCompilation compilation = SourceCompilation.Compile([("Sample.cs", """
            namespace Sample;
            public sealed class Queue<T> : IDisposable where T : unmanaged
            {
                internal Queue(int hidden) { }
                public Queue(string? path = null) { }
                public long Offset { get; private set; }
                public ref readonly T Peek() => throw new Exception();
                public void Produce(ref readonly T message, in TimeSpan limit = default, params int[] rest) { }
                public void Dispose() { }
                private void Hidden() { }
            }
            public abstract class Base { protected virtual void Change() { } public const int Max = 3; }
            public enum Mode { One, Two = 5 }
            internal class Unseen { public void Method() { } }
            """)]);
        using MemoryStream image = new();
        Assert.True(compilation.Emit(image, cancellationToken: TestContext.Current.CancellationToken).Success);

        Assert.Equal(
            """
            public abstract class Sample.Base
                protected Base()
                protected virtual void Change()
                public const int Max = 3

            public enum Sample.Mode
                One = 0
                Two = 5

            public sealed class Sample.Queue<T> where T : unmanaged : IDisposable
                public Queue(string? path = null)
                public long Offset { get; }
                public ref readonly T Peek()
                public void Dispose()
                public void Produce(ref readonly T message, in TimeSpan limit = default, params int[] rest)


            """,
            PublicSurface.Of(MetadataReference.CreateFromImage(image.ToArray())));
    }
}
