namespace MappedFileQueues.BridgeLab;

/// <summary>What a run was asked for.</summary>
/// <param name="Seed">What happens, and when.</param>
/// <param name="Time">How long the disturbances go on.</param>
/// <param name="Nodes">One broker, or a cluster.</param>
/// <param name="Each">How often each kind of kill happens at least; 0: the time decides.</param>
internal sealed record LabSettings(int Seed, TimeSpan Time, int Nodes, int Each)
{
    /// <summary>Whether the disturbances go on.</summary>
    public bool GoesOn(TimeSpan elapsed, int rarestKill) => Each > 0 ? rarestKill < Each : elapsed < Time;
}
