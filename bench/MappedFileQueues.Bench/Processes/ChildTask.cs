using System.Globalization;

namespace MappedFileQueues.Bench.Processes;

/// <summary>
/// What a child process is started for. Travels as its arguments: a process that is on the clock from its start would spend a
/// quarter of its time on the code of a serialiser.
/// </summary>
/// <param name="Role">Which figure, or part of one: a key of <see cref="ChildRoles"/>.</param>
/// <param name="Directory">Where its files go; emptied by who started it.</param>
/// <param name="Messages">How many messages each repetition sends.</param>
/// <param name="Repetitions">How often both sides are measured.</param>
/// <param name="IsQuick">Shorter waits and samples.</param>
/// <param name="RawOnly">Only the raw loop, for the comparison with the C program.</param>
/// <param name="Index">0 or 1: which of two processes; its CPU too.</param>
/// <param name="ProcessCount">1 or 2.</param>
/// <param name="Bytes">What each repetition of a figure about files moves; 0 in a run about queues.</param>
/// <param name="WarmsUp">Whether the code is compiled to the end before it is measured.</param>
/// <param name="IsCold">Whether files are measured as a first try finds them.</param>
internal sealed record ChildTask(
    string Role,
    string Directory,
    long Messages,
    int Repetitions,
    bool IsQuick,
    bool RawOnly = false,
    int Index = 0,
    int ProcessCount = 1,
    long Bytes = 0,
    bool WarmsUp = true,
    bool IsCold = false)
{
    /// <summary>In the order of the parameters.</summary>
    public string[] ToArguments() =>
    [
        Role,
        Directory,
        Text(Messages),
        Text(Repetitions),
        Text(IsQuick ? 1 : 0),
        Text(RawOnly ? 1 : 0),
        Text(Index),
        Text(ProcessCount),
        Text(Bytes),
        Text(WarmsUp ? 1 : 0),
        Text(IsCold ? 1 : 0),
    ];

    /// <summary>What <see cref="ToArguments"/> gave.</summary>
    /// <exception cref="ToolException">Something is missing, or no number.</exception>
    public static ChildTask Parse(string[] arguments) =>
        arguments is [string role, string directory, .. string[] rest] && rest.Length == 9
            ? new ChildTask(
                role,
                directory,
                Number(rest[0]),
                (int)Number(rest[1]),
                Number(rest[2]) != 0,
                Number(rest[3]) != 0,
                (int)Number(rest[4]),
                (int)Number(rest[5]),
                Number(rest[6]),
                Number(rest[7]) != 0,
                Number(rest[8]) != 0)
            : throw new ToolException($"The task of a bench process is not whole: arguments={string.Join(' ', arguments)}.");

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);

    private static long Number(string text) =>
        long.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out long number)
            ? number
            : throw new ToolException($"The task of a bench process holds no number where one belongs: found={text}.");
}
