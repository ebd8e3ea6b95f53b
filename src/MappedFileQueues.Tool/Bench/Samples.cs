namespace MappedFileQueues.Tool.Bench;

/// <summary>One figure as measured: a value a repetition, the raw loop's and the queue's.</summary>
internal sealed record Samples(string Name, string Unit, double[] Raw, double[] Ours);
