namespace MappedFileQueues.Demo.Bridge;

/// <summary>A death in the demo.</summary>
/// <param name="Second">When, after the start of the sending.</param>
/// <param name="What">What was killed.</param>
/// <param name="Arrived">How many bytes of the far store were written then.</param>
internal sealed record BridgeDeath(double Second, string What, long Arrived);

/// <summary>What the demo has shown.</summary>
/// <param name="Messages">The messages that were sent.</param>
/// <param name="Bytes">Their bytes, with one \n each.</param>
/// <param name="ReceivedMessages">The messages in the far store.</param>
/// <param name="SentDigest">The SHA-256 of what was sent.</param>
/// <param name="ReceivedDigest">The SHA-256 of what arrived.</param>
/// <param name="Deaths">Who was killed.</param>
/// <param name="Seconds">The time from the first message to the last.</param>
internal sealed record BridgeDemoResult(
    long Messages,
    long Bytes,
    long ReceivedMessages,
    string SentDigest,
    string ReceivedDigest,
    IReadOnlyList<BridgeDeath> Deaths,
    double Seconds)
{
    public bool IsRight => Messages == ReceivedMessages && SentDigest == ReceivedDigest;
}
