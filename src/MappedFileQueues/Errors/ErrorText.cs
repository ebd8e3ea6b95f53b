namespace MappedFileQueues;

/// <summary>
/// The text of an exception that may be of a user's own type, whose text may throw or be null. A background thread, a dead letter
/// and a consumer must not fail for it.
/// </summary>
internal static class ErrorText
{
    public static string Of(Exception error)
    {
        try
        {
            return error.Message ?? "";
        }
        catch (Exception thrown)
        {
            return $"Its text cannot be had: {thrown.GetType().FullName}.";
        }
    }
}
