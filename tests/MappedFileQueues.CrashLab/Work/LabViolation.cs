namespace MappedFileQueues.CrashLab.Work;

/// <summary>A promise that was not kept.</summary>
internal sealed class LabViolation(string message, Exception? inner = null) : Exception(message, inner);
