namespace MappedFileQueues.Tool;

/// <summary>
/// The work cannot be done. The message gives the reason with the values, and the remedy. Ends the tool with exit code 1.
/// </summary>
internal sealed class ToolException(string message) : Exception(message);
