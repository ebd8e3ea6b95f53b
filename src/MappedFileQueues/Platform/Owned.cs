namespace MappedFileQueues.Platform;

/// <summary>What is made of something that must be disposed owns it; when it cannot be made, that is disposed at once.</summary>
internal static class Owned
{
    public static TMade Into<TOwned, TMade>(this TOwned owned, Func<TOwned, TMade> make)
        where TOwned : IDisposable
    {
        try
        {
            return make(owned);
        }
        catch
        {
            owned.Dispose();
            throw;
        }
    }
}
