namespace MappedFileQueues.Tool;

/// <summary>
/// The work cannot be done; the message says why, with the values, and what to do. Ends the tool with <see
/// cref="ExitCodes.Failure"/>.
/// </summary>
internal sealed class ToolException(string message) : Exception(message);
