namespace MappedFileQueues.Tool.Bench.Processes;

/// <summary>What a child process is started for; travels as JSON in its only argument.</summary>
/// <param name="Role">Which figure, or part of one: a key of <see cref="ChildRoles"/>.</param>
/// <param name="Directory">Where its files go; emptied by who started it.</param>
/// <param name="Messages">How many messages each repetition sends.</param>
/// <param name="Repetitions">How often both sides are measured.</param>
/// <param name="IsQuick">Shorter waits and samples.</param>
/// <param name="RawOnly">Only the raw loop, for the comparison with the C program.</param>
/// <param name="Index">0 or 1: which of two processes; its CPU too.</param>
/// <param name="ProcessCount">1 or 2.</param>
/// <param name="Bytes">What each repetition of a figure about files moves; 0 in a run about queues.</param>
internal sealed record ChildTask(
    string Role,
    string Directory,
    long Messages,
    int Repetitions,
    bool IsQuick,
    bool RawOnly = false,
    int Index = 0,
    int ProcessCount = 1,
    long Bytes = 0);
