namespace MappedFileQueues.BridgeLab;

/// <summary>What a run was asked for.</summary>
/// <param name="Seed">What happens, and when.</param>
/// <param name="Time">How long the disturbances continue at most.</param>
/// <param name="Nodes">One broker, or a cluster.</param>
/// <param name="Each">They end once each kind of kill has happened so often; 0: the time alone decides.</param>
internal sealed record LabSettings(int Seed, TimeSpan Time, int Nodes, int Each)
{
    /// <summary>Whether the disturbances continue.</summary>
    public bool GoesOn(TimeSpan elapsed, int rarestKill) => elapsed < Time && (Each == 0 || rarestKill < Each);
}
