using System.Runtime.CompilerServices;

namespace MappedFileQueues.Hosting;

/// <summary>
/// Reads the names and values of a log call's state. States are structs, and asking one through its interface would put it into a
/// box for every call; here the call is made on the struct itself, by a reader that is made once for each type.
/// </summary>
internal abstract class StateReader<TState>
{
    /// <summary>The reader for the type; null when it is no list of names and values.</summary>
    public static StateReader<TState>? Instance { get; } = Create();

    public abstract int Count(ref readonly TState state);

    public abstract KeyValuePair<string, object?> Get(ref readonly TState state, int index);

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
