namespace MappedFileQueues.Tool.Output;

/// <summary>
/// The library's errors end with a remedy for programmers: an option to set, a method to call. This class holds the same remedies
/// for a user at a shell. A test reads the library's sources and fails if a message names a part of the API and is missing here.
/// </summary>
internal static class OperatorWords
{
    private static readonly (string Library, string Operator)[] s_remedies =
    [
        ("Set CreateIfMissing, or correct StorePath.", "Correct the path; `mfq produce` creates a store."),
        ("or set DangerouslyAllowFileSystem if you know better", "or --dangerously-allow-file-system if you know better"),
        ("Put it on a local one, or set DangerouslyAllowFileSystem.", "Put it on a local one."),
        ("Close it, use ProducerMode.Shared on all sides, or raise LockTimeout.",
            "End that program, or wait for it with --lock-timeout."),
        ("Close it, choose another name, raise LockTimeout, or use OpenConsumerAsync.",
            "End that program, choose another name, or wait for it with --lock-timeout."),
        ("Close it, choose another id, or raise LockTimeout.", "End that program, or wait for it with --lock-timeout."),
        ("Restore it, or forget the producer with DeleteProducer.", "Restore it, or remove it: then repetitions are not known."),
        ("Close it, or raise LockTimeout.", "End that program, or wait for it with --lock-timeout."),
        ("Use a smaller SegmentSize", "Create the store with a smaller --segment-size"),
        ("or use shorter files (SegmentSize, VolumeSize, RollLength)",
            "or make it with a smaller --segment-size or --volume-size"),
        ("MappedFileReader.Open and PackStore.OpenReader need no write", "`mfq consume` without --commit needs no write"),
        ("Call MappedFileQueue.Delete again, then open it.", "Remove what is left of the directory, then try again."),
        ("Open it as MappedFileQueue<T>.",
            "Only a program that knows the struct can produce into it; `mfq consume` and `mfq info` read it."),
        ("Open it as MappedFileQueue.", "`mfq produce` and `mfq consume` can use it."),
        ("Use an offset that a read or Produce returned.",
            "Use an offset that `mfq produce`, `mfq info` or `mfq consume --format json` shows."),
        ("Move the consumer with ResetConsumer.", "`mfq consumers reset` moves it to a place in the log."),
        ("Move with a seek, or open with OnOutOfRange.", "Begin elsewhere with --from."),
        ("Open it with OnOutOfRange, or reset the consumer.", "`mfq consumers reset` moves it to a place in the log."),
        ("Find the slowest consumer with GetInfo or ", "Find the slowest consumer with "),
        ("MaxBytes is less than two volumes of this pack", "--max-bytes is less than two volumes of this pack"),
        ("its VolumeSize follows from MaxBytes.", "its --volume-size follows from --max-bytes."),
        ("Move the reader with Seek.", "Begin elsewhere with --from."),
        ("Dispose this queue and open the store again.", "Start the command again."),
        ("Open the reader again.", "Start the command again."),
        ("Open a new producer and produce the message again.", "Start the command again, from that message on."),
        ("Check ConfirmedOffset, or call Flush; do not produce the messages again.",
            "`mfq info` shows what is confirmed; do not produce the messages again."),
        ("What is before it can be read; restore the file, or run `mfq repair`.",
            "What is before it can be read; restore the file, run `mfq repair`, or read on with `mfq consume --skip-damage`."),
        ("Consumers read up to the damage; restore the file, or run `mfq repair`.",
            "Consumers read up to the damage; `mfq consume --skip-damage` also reads what is intact after it. Restore the file, "
            + "or run `mfq repair`."),
        ("or read the pack by PackStore.OpenReader, which needs no lock.",
            "or only look: `mfq pack list`, `get`, `extract`, `verify` and `stat` need no lock."),
        ("Compact it, or make a pack with a larger VolumeSize.",
            "Run `mfq pack compact`, or create a pack with a larger --volume-size."),
        ("Let them take turns, or use ProducerMode.Shared.", "This is a defect of the calling program."),
        ("(OnSourceChange)", "(--go-on)"),
        ("(ConsumerName)", "(--consumer)"),
        ("(SegmentSize)", "(--segment-size)"),
        ("(DeadLetterPath)", "(--dead-letters)"),
        ("DeadLetterPath is the store itself", "--dead-letters is the store itself"),
        (" (PositionInterval)", ""),
        ("StorePath is missing", "STORE is missing"),
        ("ConsumerName is ", "--consumer is "),
        ("Stream is too long", "--stream is too long"),
        ("with AllowStaleValues the pack answers with what it knows", "with --allow-stale the pack answers with what it knows"),
    ];

    /// <summary>The message with the remedy that a user can carry out at a shell.</summary>
    public static string Of(string message) =>
        s_remedies.Aggregate(message, (text, remedy) => text.Replace(remedy.Library, remedy.Operator, StringComparison.Ordinal));
}
