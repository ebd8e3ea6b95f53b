using System.Net.Sockets;
using RabbitMQ.Client.Exceptions;

namespace MappedFileQueues.RabbitMQ.Connections;

/// <summary>The connection is of no use any more; another attempt may help.</summary>
internal sealed class BrokerException(string message, Exception? inner = null) : Exception(message, inner)
{
    /// <summary>ENOTDIR.</summary>
    public const int NotADirectory = 20;

    /// <summary>EISDIR.</summary>
    public const int IsDirectory = 21;

    /// <summary>EACCES.</summary>
    public const int NoRight = 13;

    /// <summary>
    /// The errors of a path that leads to no directory: ENOTDIR, EISDIR, ENAMETOOLONG, ELOOP. Queues use Linux's numbers on every
    /// system.
    /// </summary>
    private static readonly int[] s_pathErrors = [NotADirectory, IsDirectory, 36, 40];

    /// <summary>The errors of a store that this user may not use: EPERM, EACCES, EROFS.</summary>
    private static readonly int[] s_rightErrors = [1, NoRight, 30];

    /// <summary>
    /// The broker's codes for an account that may not do something (ACCESS_REFUSED), and for a virtual host that is not there or
    /// not the account's (NOT_ALLOWED).
    /// </summary>
    private static readonly int[] s_denials = [403, 530];

    /// <summary>Whether an answer did not come in time.</summary>
    public bool IsTimeout { get; init; }

    /// <summary>Whether another attempt may help: the broker, the network, or the local disk for a while.</summary>
    public static bool IsTransient(Exception error) => error
        is BrokerException or RabbitMQClientException or TimeoutException or SocketException
        || (error is QueueDiskException disk && !s_pathErrors.Contains(disk.Errno))
        || error is ObjectDisposedException or OperationCanceledException
        or System.Security.Authentication.AuthenticationException
        || (error is IOException and not MappedFileQueueException)
        || (error is AggregateException aggregate && aggregate.InnerExceptions.All(IsTransient));

    /// <summary>
    /// Whether a person refuses it, and not the circumstances: the password, the virtual host, or a right is wrong. Another
    /// attempt helps once somebody has changed that.
    /// </summary>
    public static bool IsDenied(Exception? error) => error is not null
        && (error is AuthenticationFailureException
            || (error is OperationInterruptedException { ShutdownReason: { } end } && IsDenial(end.ReplyCode, end.ReplyText))
            || (error.Data["code"] is int code && IsDenial(code, error.Message))
            || (error is QueueDiskException disk && s_rightErrors.Contains(disk.Errno))
            || (error is AggregateException many ? many.InnerExceptions.Any(IsDenied) : IsDenied(error.InnerException)));

    /// <summary>What the client's nested exceptions say, in one line that ends as a sentence does.</summary>
    public static string Describe(Exception error)
    {
        List<string> parts = [];
        for (Exception? current = error; current is not null; current = current.InnerException)
        {
            if (current is not AggregateException && !parts.Any(part => part.Contains(current.Message, StringComparison.Ordinal)))
                parts.Add(current.Message);
        }

        string text = string.Join(" / ", parts).ReplaceLineEndings(" ").TrimEnd();
        return text.EndsWith('.') ? text : $"{text}.";
    }

    /// <summary>A limit of connections or channels has a code of these too, and passes.</summary>
    private static bool IsDenial(int code, string text) =>
        s_denials.Contains(code) && !text.Contains(" limit ", StringComparison.Ordinal);
}
