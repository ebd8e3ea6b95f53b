using System.Data.Common;
using System.Net;
using System.Net.Sockets;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Hosting.Consumers;

/// <summary>Tells errors that pass from those that come back with the same message.</summary>
internal static class PassingErrors
{
    /// <summary>
    /// An error around a consumer's own calls that ends without a change of the program: the disk (full, without a descriptor, or
    /// broken and mended), memory, a thread, a lock of the store, or an assembly that the runtime cannot open at the moment.
    /// </summary>
    public static bool IsOfSystem(Exception error) => error is QueueDiskException or QueueInUseException or OutOfMemoryException
        or MappedFileQueueException { InnerException: OutOfMemoryException or ThreadStartException }
        or (IOException and not MappedFileQueueException);

    /// <summary>The default of <see cref="HostedConsumerOptions.IsTransient"/>.</summary>
    public static bool IsTransient(Exception error)
    {
        for (Exception? cause = error; cause is not null; cause = cause.InnerException)
        {
            if (cause is DbException { IsTransient: true } or SocketException or TimeoutException or QueueDiskException
                || (cause is HttpRequestException http && IsTransient(http.StatusCode))
                // What the framework makes of the system's error numbers; on Windows its numbers are others.
                || cause is IOException
                {
                    HResult: DiskErrors.ENOSPC or DiskErrors.EDQUOT or DiskErrors.EMFILE or DiskErrors.ENFILE
                        or DiskErrors.ENOMEM or DiskErrors.EAGAIN,
                })
            {
                return true;
            }
        }

        return false;
    }

    private static bool IsTransient(HttpStatusCode? status) => status is null or HttpStatusCode.RequestTimeout
        or HttpStatusCode.TooManyRequests or HttpStatusCode.BadGateway or HttpStatusCode.ServiceUnavailable
        or HttpStatusCode.GatewayTimeout;
}
