using System.CodeDom.Compiler;
using System.Reflection;
using System.Runtime.CompilerServices;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting;

/// <summary>
/// Reads the names and values of a log call's state. States are structs, and a call through an interface would box one for every
/// log call. Here a reader, created once for each type, calls the struct itself.
/// </summary>
internal abstract class StateReader<TState>
{
    private const string GeneratorName = "Microsoft.Extensions.Logging.Generators";

    // Fields of the type's only reader, not static ones: finding the statics of a generic type costs a call each.
    private Func<TState, Exception?, string>? _known;
    private MessageTemplate? _last;

    /// <summary>The reader for the type; null when the type is not a list of names and values.</summary>
    public static StateReader<TState>? Instance { get; } = Create();

    /// <summary>
    /// True if the framework's generator wrote the type. What such a type writes for a missing value and for a value with items
    /// differs from the framework's formatter, and may differ again in the next version.
    /// </summary>
    public bool IsGenerated { get; } =
        typeof(TState).GetCustomAttribute<GeneratedCodeAttribute>()?.Tool == GeneratorName;

    /// <summary>
    /// True if the formatter renders the template. Those of Microsoft.Extensions.Logging itself and of its generated code do, and
    /// each is the same object at every call. Any other formatter may produce any text, for these states too.
    /// </summary>
    public bool Knows(Func<TState, Exception?, string> formatter) => ReferenceEquals(formatter, _known) || Recognizes(formatter);

    /// <summary>
    /// The parsed template. Mostly it is the last one that this type of state had, the same object, so no hash is needed.
    /// </summary>
    public MessageTemplate Parse(string template) =>
        _last is { } last && ReferenceEquals(last.Source, template) ? last : (_last = MessageTemplate.Of(template));

    public abstract int Count(ref readonly TState state);

    public abstract KeyValuePair<string, object?> Get(ref readonly TState state, int index);

    private bool Recognizes(Func<TState, Exception?, string> formatter)
    {
        Type? place = formatter.Method.DeclaringType;
        bool isKnown = IsGenerated
            ? place == typeof(TState) || place?.DeclaringType == typeof(TState)
            : place?.Assembly == typeof(ILogger).Assembly;
        if (isKnown)
            _known = formatter;
        return isKnown;
    }

    private static StateReader<TState>? Create()
    {
        if (!typeof(IReadOnlyList<KeyValuePair<string, object?>>).IsAssignableFrom(typeof(TState)))
            return null;

        // Without a JIT compiler there is no code for a struct that the program does not name; there the box is the price.
        return RuntimeFeature.IsDynamicCodeSupported
            ? (StateReader<TState>)Activator.CreateInstance(typeof(ListStateReader<>).MakeGenericType(typeof(TState)))!
            : new BoxingStateReader<TState>();
    }
}

/// <summary>The reader that does not box.</summary>
internal sealed class ListStateReader<TState> : StateReader<TState>
    where TState : IReadOnlyList<KeyValuePair<string, object?>>
{
    public override int Count(ref readonly TState state) => Unsafe.AsRef(in state).Count;

    public override KeyValuePair<string, object?> Get(ref readonly TState state, int index) => Unsafe.AsRef(in state)[index];
}

/// <summary>The reader that works everywhere.</summary>
internal sealed class BoxingStateReader<TState> : StateReader<TState>
{
    public override int Count(ref readonly TState state) => ((IReadOnlyList<KeyValuePair<string, object?>>)state!).Count;

    public override KeyValuePair<string, object?> Get(ref readonly TState state, int index) =>
        ((IReadOnlyList<KeyValuePair<string, object?>>)state!)[index];
}
