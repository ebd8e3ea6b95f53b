namespace MappedFileQueues.Tests.Support;

/// <summary>An exception of a user's own type, whose text throws.</summary>
internal sealed class TextThrows : Exception
{
    public override string Message => throw new InvalidOperationException();
}
