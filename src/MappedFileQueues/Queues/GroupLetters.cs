using MappedFileQueues.Engine;
using MappedFileQueues.Log.Groups;
using MappedFileQueues.Platform;

namespace MappedFileQueues;

/// <summary>The dead letters of one member of a group.</summary>
/// <param name="engine">The store that the messages come from.</param>
/// <param name="options">The options of its queue.</param>
/// <param name="path">The store of the letters; null: beside the queue's.</param>
internal sealed class GroupLetters(StoreEngine engine, MappedFileQueueOptions options, string? path) : IDisposable
{
    private const string Suffix = "-dead-letters";

    private readonly DeadLetterBox _box = new(path ?? PathBeside(options.StorePath), options);

    /// <summary>Where the letters of a queue go unless its user says otherwise.</summary>
    public static string PathBeside(string storePath) => Path.TrimEndingDirectorySeparator(storePath) + Suffix;

    /// <summary>
    /// What such a box needs of the options of a queue, which belong to the user. A relative path is one in the folder in which
    /// the process works now.
    /// </summary>
    public static MappedFileQueueOptions Copy(MappedFileQueueOptions options) => new()
    {
        StorePath = SystemPath.Full(options.StorePath),
        UnixCreateMode = options.UnixCreateMode,
        DangerouslyAllowFileSystem = options.DangerouslyAllowFileSystem,
        TimeProvider = options.TimeProvider,
    };

    /// <summary>Appends a letter; it is on disk when the call returns.</summary>
    public void Send(in GroupLetter letter, ReadOnlySpan<byte> message) => _box.Append(
        new DeadLetter
        {
            StoreId = engine.Store.Meta.StoreId,
            Epoch = engine.Store.Control.Epoch,
            Offset = letter.Offset,
            Queue = Path.GetFileName(engine.Store.Path),
            Consumer = letter.Group,
            Time = options.TimeProvider.GetUtcNow(),
            Attempts = letter.Deliveries,
            ErrorType = letter.ErrorType,
            Error = DeadLetter.CutError(letter.Error),
            MessageLength = message.Length,
            Message = message.ToArray(),
        },
        engine.Store.Meta.SegmentLength,
        letter.Headers);

    public void Dispose() => _box.Dispose();
}
