namespace MappedFileQueues.RabbitMQ.Forwarding;

/// <summary>The broker does not take a message: it says so, or it ends the channel because of it.</summary>
internal sealed class RefusedException(string message) : Exception(message)
{
    private const int PreconditionFailed = 406;

    /// <summary>Whether an attempt ended because of what a message is, and not because of what the broker is.</summary>
    public static bool IsIn(Exception? error)
    {
        for (; error is not null; error = error.InnerException)
        {
            // 406 on a channel that only publishes is about a message: it is too large.
            if (error is RefusedException
                || (error.Data["code"] is PreconditionFailed && error.Message.Contains("message size", StringComparison.Ordinal)))
                return true;
        }

        return false;
    }
}
