using MappedFileQueues.Tests.Support;
using Xunit.Sdk;
using Xunit.v3;

[assembly: TestCollectionOrderer(typeof(LongCollectionsFirst))]

namespace MappedFileQueues.Tests.Support;

/// <summary>
/// The collections of many classes begin first, then the slow classes, then the rest: a long one that begins last runs alone for
/// minutes, while the other processor has nothing to do. Those that run alone come after all others in any case.
/// </summary>
public sealed class LongCollectionsFirst : ITestCollectionOrderer
{
    private static readonly HashSet<string> s_slowClasses =
    [
        .. from type in typeof(LongCollectionsFirst).Assembly.GetTypes()
           where type.GetCustomAttributes(typeof(TraitAttribute), inherit: true).OfType<TraitAttribute>()
               .Any(trait => trait is { Name: "Category", Value: "Slow" })
           select type.FullName,
    ];

    public IReadOnlyCollection<TTestCollection> OrderTestCollections<TTestCollection>(
        IReadOnlyCollection<TTestCollection> testCollections)
        where TTestCollection : ITestCollection =>
        [
            .. from collection in testCollections
               orderby Rank(collection), collection.TestCollectionDisplayName
               select collection,
        ];

    /// <summary>The collection of a lone class has no definition; its name has the class's in it, between words.</summary>
    private static int Rank(ITestCollection collection) =>
        collection.TestCollectionClassName is not null ? 0
        : collection.TestCollectionDisplayName.Split(' ').Any(s_slowClasses.Contains) ? 1
        : 2;
}
