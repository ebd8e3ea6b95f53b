namespace MappedFileQueues.Tool;

/// <summary>
/// The work cannot be done; the message says why, with the values, and what to do. Ends the tool with <see
/// cref="ExitCodes.Failure"/>.
/// </summary>
internal sealed class ToolException(string message) : Exception(message);

/// <summary>The arguments contradict each other or the store. Ends the tool with <see cref="ExitCodes.Usage"/>.</summary>
internal sealed class UsageException(string message) : Exception(message);
