using System.CodeDom.Compiler;
using System.Reflection;
using System.Runtime.CompilerServices;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting;

/// <summary>
/// Reads the names and values of a log call's state. States are structs, and asking one through its interface would put it into a
/// box for every call; here the call is made on the struct itself, by a reader that is made once for each type.
/// </summary>
internal abstract class StateReader<TState>
{
    private const string GeneratorName = "Microsoft.Extensions.Logging.Generators";

    // Fields of the one reader of a type, and not static ones: finding those of a generic type takes a call each.
    private Func<TState, Exception?, string>? _known;
    private MessageTemplate? _last;

    /// <summary>The reader for the type; null when it is no list of names and values.</summary>
    public static StateReader<TState>? Instance { get; } = Create();

    /// <summary>
    /// Whether the type is written by the framework's generator: what it says about a missing value and about one with items is
    /// not what the framework's formatter says, and may be something else in the next version.
    /// </summary>
    public bool IsGenerated { get; } =
        typeof(TState).GetCustomAttribute<GeneratedCodeAttribute>()?.Tool == GeneratorName;

    /// <summary>
    /// Whether a formatter renders the template: those of Microsoft.Extensions.Logging itself and of its generated code do, and
    /// are the same object at each call. Anybody else's may say anything, about these states too.
    /// </summary>
    public bool Knows(Func<TState, Exception?, string> formatter) => ReferenceEquals(formatter, _known) || GetToKnow(formatter);

    /// <summary>
    /// The template taken apart: mostly it is the one that the type of state had last, the same object, so that nobody hashes it.
    /// </summary>
    public MessageTemplate Parse(string template) =>
        _last is { } last && ReferenceEquals(last.Source, template) ? last : (_last = MessageTemplate.Of(template));

    public abstract int Count(ref readonly TState state);

    public abstract KeyValuePair<string, object?> Get(ref readonly TState state, int index);

    private bool GetToKnow(Func<TState, Exception?, string> formatter)
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

        // Without a JIT compiler the code for a struct that nobody named cannot be had: there the box is the price.
        return RuntimeFeature.IsDynamicCodeSupported
            ? (StateReader<TState>)Activator.CreateInstance(typeof(ListStateReader<>).MakeGenericType(typeof(TState)))!
            : new BoxingStateReader<TState>();
    }
}

/// <summary>The reader without boxes.</summary>
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
