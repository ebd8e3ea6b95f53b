using System.ComponentModel.DataAnnotations;
using MappedFileQueues.Hosting.Consumers;
using MappedFileQueues.Hosting.Queues;

namespace MappedFileQueues.Hosting;

/// <summary>What happens to a message that its handler has refused at every attempt.</summary>
public enum HandlerFailureAction
{
    /// <summary>The consumer stops there, and health says so. The rest of the application continues.</summary>
    Stop,

    /// <summary>
    /// The application stops, and <see cref="Environment.ExitCode"/> becomes 1 unless it is set already, so that what supervises
    /// the process starts it again. A `Main` that returns a number has to return that one.
    /// </summary>
    StopApplication,

    /// <summary>
    /// The message goes to a store of its own and is on disk there before the consumer continues. When that fails, on a full disk
    /// for example, the consumer tries again until it succeeds, and health says so. After a crash in between the message may be
    /// there twice: its origin tells.
    /// </summary>
    DeadLetter,
}

/// <summary>
/// The options of a consumer in an application. They are read from the section `MappedFileQueues:QUEUE:Consumer`, or
/// `MappedFileQueues:QUEUE:Consumers:NAME` for a consumer with a name; what the code sets overrides it. They are checked when the
/// application starts.
/// </summary>
public sealed class HostedConsumerOptions
{
    /// <summary>
    /// The group of competing consumers whose messages are handled: each message goes to one member, in whichever process it is.
    /// Named as consumers are. Null, the default: a consumer, which gets every message. In a group the consumer's name only says
    /// where its options are.
    /// </summary>
    public string? Group { get; set; }

    /// <summary>
    /// In a group, how many members this process has: so many calls of the handler run at once. From 1 to 256; default 1.
    /// </summary>
    [Range(1, 256)]
    public int Concurrency { get; set; } = 1;

    /// <summary>
    /// Whether a consumer or a group that is new begins with the oldest message; default true. False: after the last.
    /// </summary>
    public bool FromStart { get; set; } = true;

    /// <summary>As <see cref="ConsumerOptions.DurableOnly"/>; default false.</summary>
    public bool DurableOnly { get; set; }

    /// <summary>
    /// What the consumer does when messages were removed before it read them; default: it fails, and stops.
    /// </summary>
    public OutOfRangePolicy OnOutOfRange { get; set; }

    /// <summary>What the consumer does where the log is damaged; default: what the queue's options say.</summary>
    public CorruptionPolicy? Corruption { get; set; }

    /// <summary>
    /// Whether the commit of each message, or batch, is flushed to the disk; default false. False: a crash of the process repeats
    /// nothing, a power loss may repeat what was committed since the system last wrote the page; in a group, what was
    /// acknowledged within the last <see cref="MappedFileQueueOptions.FlushInterval"/>.
    /// </summary>
    public bool DurableCommits { get; set; }

    /// <summary>The most messages of a batch, from 1 to 65,536, in a group to 4,096; default 256.</summary>
    [Range(1, 65536)]
    public int BatchLengthMax { get; set; } = 256;

    /// <summary>
    /// Whether each call of the handler gets a scope of its own, with a new handler in it; default true. False: one handler and
    /// one scope for the life of the consumer, whatever is scoped included. Both are disposed at their end.
    /// </summary>
    public bool ScopePerCall { get; set; } = true;

    /// <summary>
    /// How often a handler may refuse a message, from 1 on; default 5. Errors that <see cref="IsTransient"/> do not count. In a
    /// group, how often the message is handed out, to whichever member, at most 62: deaths of members count too.
    /// </summary>
    [Range(1, int.MaxValue)]
    public int AttemptsMax { get; set; } = 5;

    /// <summary>
    /// Whether an error of the handler will pass: it says nothing about the message, and the handler is called again until it
    /// succeeds. Set by code only; the consumer calls it, from one thread at a time, and each member of a group does. What it
    /// throws itself is a refusal. By default, where the error or one of its inner ones is a
    /// <see cref="System.Data.Common.DbException"/> that says so itself, a <see cref="System.Net.Sockets.SocketException"/>, a
    /// <see cref="TimeoutException"/>, a <see cref="QueueDiskException"/>, an <see cref="IOException"/> without room, descriptors
    /// or memory (not on Windows), or a <see cref="System.Net.Http.HttpRequestException"/> without an answer or with 408, 429,
    /// 502, 503 or 504.
    /// </summary>
    public Func<Exception, bool> IsTransient { get; set; } = PassingErrors.IsTransient;

    /// <summary>
    /// The pause before the second attempt; it doubles with each further one, and is random between half and all of that. From 0
    /// to a day; default 100 ms. Pauses that have no last one are 100 ms at least. In a group the message is given back for that
    /// time, and other ones are handled meanwhile.
    /// </summary>
    [TimeRange("00:00:00", "1.00:00:00")]
    public TimeSpan RetryDelay { get; set; } = TimeSpan.FromMilliseconds(100);

    /// <summary>The longest pause; from 0 to a day; default 30 s.</summary>
    [TimeRange("00:00:00", "1.00:00:00")]
    public TimeSpan RetryDelayMax { get; set; } = TimeSpan.FromSeconds(30);

    /// <summary>
    /// What happens when the attempts are used up. Null, the default: <see cref="HandlerFailureAction.Stop"/>, and in a group
    /// <see cref="HandlerFailureAction.DeadLetter"/>, which has no other.
    /// </summary>
    public HandlerFailureAction? OnFailure { get; set; }

    /// <summary>
    /// After so many dead letters in a row the consumer pauses after each further one, as between attempts, until a message is
    /// handled: then it is hardly the messages that are bad. From 1 on; default 10.
    /// </summary>
    [Range(1, int.MaxValue)]
    public int DeadLettersInRowMax { get; set; } = 10;

    /// <summary>
    /// The directory of the dead letters, a store of messages that <see cref="DeadLetter"/> reads. Null: the queue's directory
    /// with `-dead-letters` after its name. Consumers may share it.
    /// </summary>
    public string? DeadLetterPath { get; set; }

    /// <summary>
    /// After this time a handler that has not returned is named by health and by the log; from 1 ms to a day, default 1 minute.
    /// It is not ended.
    /// </summary>
    [TimeRange("00:00:00.0010000", "1.00:00:00")]
    public TimeSpan HandlerTimeMax { get; set; } = TimeSpan.FromMinutes(1);

    internal GroupOptions ToGroupOptions(string deadLetterPath) => new()
    {
        Start = FromStart ? QueueStart.Earliest : QueueStart.Latest,
        DurableOnly = DurableOnly,
        OnOutOfRange = OnOutOfRange,
        Corruption = Corruption,
        DeadLetterPath = deadLetterPath,
        // The service counts: a letter that cannot be appended is no error of the next message.
        DeliveriesMax = 0,
    };

    internal ConsumerOptions ToOptions() => new()
    {
        Start = FromStart ? QueueStart.Earliest : QueueStart.Latest,
        DurableOnly = DurableOnly,
        OnOutOfRange = OnOutOfRange,
        Corruption = Corruption,
    };
}
