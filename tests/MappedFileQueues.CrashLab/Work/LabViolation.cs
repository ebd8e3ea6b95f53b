namespace MappedFileQueues.CrashLab.Work;

/// <summary>A promise that was not kept.</summary>
internal sealed class LabViolation(string message, Exception? inner = null) : Exception(message, inner)
{
    /// <summary>Does what must fail with this exception; it is a violation when it does not.</summary>
    public static void Expect<T>(Action action, string what)
        where T : Exception
    {
        try
        {
            action();
        }
        catch (T)
        {
            return;
        }

        throw new LabViolation($"No {typeof(T).Name} for {what}");
    }
}
