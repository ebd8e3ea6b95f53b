using Microsoft.Extensions.Hosting;

namespace MappedFileQueues.Hosting.Consumers;

/// <summary>A consumer of the application, or the members of a group, as a service that may end by itself.</summary>
internal interface IConsumerService : IHostedService, IDisposable
{
    /// <summary>Whether it was stopped, or has stopped at a message or an error for good.</summary>
    bool HasEnded { get; }
}
