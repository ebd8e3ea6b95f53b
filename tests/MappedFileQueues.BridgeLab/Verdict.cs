using System.Text;

namespace MappedFileQueues.BridgeLab;

/// <summary>
/// What a run has shown. A broken invariant is told apart from what has only not come yet, so that a planted mistake does not
/// count as found because the run got stuck.
/// </summary>
internal sealed class Verdict
{
    /// <summary>Messages are lost, doubled, or in another order.</summary>
    public List<string> Violations { get; } = [];

    /// <summary>A process has ended by itself: a bridge does so when it sees something wrong.</summary>
    public List<string> Alarms { get; } = [];

    /// <summary>Something did not come.</summary>
    public List<string> Troubles { get; } = [];

    /// <summary>Whether something was found, by the comparison or by a bridge.</summary>
    public bool IsFound => Violations.Count + Alarms.Count > 0;

    /// <summary>Whether all is as it has to be.</summary>
    public bool IsClean => !IsFound && Troubles.Count == 0;

    /// <summary>Holds what came out against what went in.</summary>
    /// <param name="name">Where it came out.</param>
    /// <param name="near">What went in.</param>
    /// <param name="other">What came out.</param>
    /// <param name="isEnd">Whether all of it has to be there.</param>
    public void Compare(string name, List<byte[]> near, List<byte[]> other, bool isEnd)
    {
        int same = 0;
        while (same < near.Count && same < other.Count && near[same].AsSpan().SequenceEqual(other[same]))
            same++;
        if (same == other.Count)
        {
            if (isEnd && same < near.Count)
                Troubles.Add($"{name}: {other.Count} messages of {near.Count} have come");
            return;
        }

        int number = near.FindIndex(each => each.AsSpan().SequenceEqual(other[same]));
        string kind = number < 0 ? "foreign" : number < same ? "doubled" : "lost before it";
        Violations.Add(
            $"{name}: {kind}: message {same} is {Show(other, same)} (number {number} of the near store) instead of "
            + Show(near, same));
    }

    private static string Show(List<byte[]> messages, int index) =>
        index < messages.Count ? Encoding.UTF8.GetString(messages[index]).TrimEnd('.') : "nothing";
}
