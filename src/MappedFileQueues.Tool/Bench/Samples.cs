namespace MappedFileQueues.Tool.Bench;

/// <summary>One figure as measured: one value per repetition, of the raw loop and of the queue.</summary>
internal sealed record Samples(string Name, string Unit, double[] Raw, double[] Ours);
