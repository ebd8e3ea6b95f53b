using MappedFileQueues.Format;
using MappedFileQueues.RabbitMQ.Envelopes;

namespace MappedFileQueues.RabbitMQ.Fetching;

/// <summary>
/// Holds each envelope against what was fetched before it: what it brings again, and what is missing between. Retention takes the
/// beginning of a stream away in silence, and a store that was restored begins again with other messages.
/// <code>
/// the envelope                                          is
/// begins where its source was fetched up to             the next one
/// begins before that                                    brought again, up to there
/// begins after that                                     ambiguous: messages are missing
/// has a message across that                             ambiguous: the source was written anew
/// is of a later epoch, and begins there                 the next one, after a power loss
/// is of another epoch, and begins elsewhere             ambiguous: the source has changed
/// is the first of its source, and not of its forwarder  ambiguous: messages are missing
/// is the first of the stream, at a later place          ambiguous: messages are missing
/// </code>
/// </summary>
/// <param name="stream">The stream's name, for errors.</param>
/// <param name="target">The store that is fetched into.</param>
/// <param name="onAmbiguous">Throws, or notes that the fetcher continues.</param>
internal sealed class Continuity(string stream, TargetStore target, Action<BridgeFault, string, string> onAmbiguous)
{
    /// <summary>
    /// The broker takes a place of the stream for notes of its own at the beginning of a segment. It takes more when readers have
    /// it keep their offsets; so inside of a stream, the envelopes tell what is missing and the places do not.
    /// </summary>
    private const int PlacesOfBroker = 1;

    private bool _hasGap;

    /// <summary>Up to where the source of an envelope is in the store already.</summary>
    /// <param name="envelope">A message of the stream; null if it is no envelope.</param>
    /// <param name="streamOffset">Its place.</param>
    /// <param name="isFirst">Whether it is the first one that is new to this session.</param>
    /// <exception cref="BridgeException">Something is ambiguous, and the policy is to stop.</exception>
    public long FindSeen(in StreamEnvelope? envelope, long streamOffset, bool isFirst)
    {
        // Nobody tells a reader that the stream does not begin any more where it wants to continue; the broker begins later.
        long missing = streamOffset - target.StreamOffset - 1;
        bool isGap = isFirst && missing > (target.StreamOffset < 0 ? 0 : PlacesOfBroker);
        if (isGap)
            ReportGap(envelope, streamOffset, missing);
        if (envelope is not { Kind: EnvelopeKind.Records } records)
            return 0;
        string where = $"stream={stream}, place={streamOffset}, source={records.StoreId}";
        if (target.PlaceOf(records.StoreId) is { } place)
            return FindSeen(records, place, where, isGap);
        // A forwarder begins with an envelope without records; its store may have been trimmed before. After a gap, that may
        // also be a later session of it.
        bool isBegin = records.Count == 0 && records.To == records.From;
        if (records.From > 0 && !isGap && (_hasGap || !isBegin))
        {
            onAmbiguous(
                BridgeFault.Gap,
                $"Messages are missing in the stream: {where}, source offsets missing=up to {records.From}. The source's first "
                + "envelope is not where its forwarder began. The stream's retention removed them before they were fetched, or "
                + "the broker has lost them.",
                "Continue after them (OnSourceChange).");
        }

        return 0;
    }

    private long FindSeen(in StreamEnvelope envelope, SourcePlace place, string where, bool isGap)
    {
        if (envelope.Epoch == place.Epoch)
        {
            if (envelope.From > place.To && !isGap)
            {
                onAmbiguous(
                    BridgeFault.Gap,
                    $"Messages are missing in the stream: {where}, from={place.To}, to={envelope.From}, "
                    + $"source offsets missing={envelope.From - place.To}. Its retention removed them, or the broker has lost "
                    + "them.",
                    "Continue without them (OnSourceChange).");
            }

            if (!EndsWithin(envelope, place.To))
                return place.To;
            onAmbiguous(
                BridgeFault.SourceChanged,
                $"The source is not as it was: {where}, fetched={place.To}, which is within a message of it now. It was cut back "
                + $"or restored, and written anew. Messages from {envelope.From} on may come again, or others in their place.",
                "Continue with them (OnSourceChange).");
            return 0;
        }

        if (envelope.Epoch > place.Epoch && envelope.From == place.To)
            return 0;
        onAmbiguous(
            BridgeFault.SourceChanged,
            $"The source has changed its epoch: {where}, from={envelope.From} of epoch {envelope.Epoch}, fetched={place.To} of "
            + $"epoch {place.Epoch}. Messages from {Math.Min(envelope.From, place.To)} on may come again, or "
            + "others in their place.",
            "Continue with them (OnSourceChange).");
        return 0;
    }

    /// <summary>
    /// The beginning of the stream is missing, or what follows the last message that is done. What it held, only a later envelope
    /// of the same source tells, and some sources send none any more; so the gap is reported, whatever comes after it.
    /// </summary>
    private void ReportGap(in StreamEnvelope? envelope, long streamOffset, long missing)
    {
        _hasGap = true;
        string lost = "not known before the next messages of each source";
        if (envelope is { Kind: EnvelopeKind.Records } records)
        {
            string count = target.PlaceOf(records.StoreId) is not { } place ? $"up to {records.From}"
                : place.Epoch == records.Epoch ? $"{Math.Max(0, records.From - place.To)}"
                : $"not known, its epoch changed from {place.Epoch} to {records.Epoch}";
            lost = $"{count}, source={records.StoreId}";
        }

        onAmbiguous(
            BridgeFault.Gap,
            $"Messages are missing in the stream: stream={stream}, place={streamOffset}, places missing={missing}, "
            + $"source offsets missing={lost}. Its retention removed them before they were fetched, or the broker has lost them.",
            "Continue after them (OnSourceChange).");
    }

    /// <summary>Whether a place in the source is within one of the envelope's messages, after its start.</summary>
    private static bool EndsWithin(in StreamEnvelope envelope, long place)
    {
        if (envelope.From >= place || envelope.To <= place)
            return false;
        foreach (EnvelopeRecord record in envelope)
        {
            int length = record.Headers.Length + record.Payload.Length;
            if (record.Offset < place && record.Offset + FrameHeader.FrameLength(length) > place)
                return true;
        }

        return false;
    }
}
