using System.Diagnostics;
using System.Text.Json;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Structure;

namespace MappedFileQueues.Tests.Interop;

/// <summary>
/// The C# reader answers what the vectors say. They are made from the page alone, so this is also the proof that the page is
/// enough for others.
/// </summary>
[Trait("Category", "Slow")]
public sealed class VectorTests
{
    [Fact]
    public void Read_EveryVector_GivesWhatItSays() => Violations.None(
        from vector in Vectors.All()
        from difference in Compare(vector.Path, vector.Expected)
        select $"{vector.Expected.Name}: {difference}");

    /// <summary>
    /// Opening a store that nobody has open repairs it, and loses nothing of these. The epoch rises where memory may be lost.
    /// </summary>
    [Fact]
    public void Open_EveryVectorThatIsRepaired_HasEachMessageAndTheEpoch() => Violations.None(
        from vector in Vectors.All()
        where vector.Expected.Recovered is not null
        from difference in Recover(vector.Path, vector.Expected)
        select $"{vector.Expected.Name}: {difference}");

    /// <summary>What retention and producers with a limit go by.</summary>
    [Fact]
    public void Floors_EveryVector_AreWhatItSays() => Violations.None(
        from vector in Vectors.All()
        where vector.Expected.Open == "ok"
        from difference in CompareFloors(vector.Path, vector.Expected)
        select $"{vector.Expected.Name}: {difference}");

    [Fact]
    public void FindNumber_EveryVectorWithAnIndex_GivesWhatItSays() => Violations.None(
        from vector in Vectors.All()
        where vector.Expected.Number is not null
        let number = FindNumber(vector.Path)
        where number != vector.Expected.Number
        select $"{vector.Expected.Name}: number={number}, expected={vector.Expected.Number}");

    private static List<string> Recover(string source, Vectors.Answer expected)
    {
        using var store = new TempStore(createStoreFolder: true);
        Vectors.CopyTo(source, store.StorePath);
        List<string> differences = [];
        using (var queue = new MappedFileQueue(new()
        {
            StorePath = store.StorePath,
            SegmentSize = expected.SegmentLength!.Value,
            Durability = DurabilityLevel.PageCache,
        }))
        {
            long epoch = queue.GetInfo().Epoch;
            // Without the page it may be a copy, whose epoch is the time.
            if (File.Exists(Path.Combine(source, "control")) ? epoch != expected.Recovered : epoch < expected.Recovered)
                differences.Add($"epoch={epoch}, expected={expected.Recovered}");
            foreach ((string id, ulong sequence) in expected.Producers)
            {
                using MappedFileIdempotentProducer producer = queue.OpenProducer(id);
                if (producer.LastSequence != sequence)
                    differences.Add($"producer {id}={producer.LastSequence}, expected={sequence}");
            }
        }

        if (File.Exists(store.PathOf("poison")))
            differences.Add("it is still poisoned");
        using MappedFileReader reader = MappedFileReader.Open(store.StorePath);
        return [.. differences, .. CompareMessages(reader, expected)];
    }

    private static IEnumerable<string> CompareFloors(string path, Vectors.Answer expected)
    {
        using HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(path, create: false, mode: null)!;
        Guid id = StoreMetaFile.Read(directory)!.StoreId;
        Dictionary<string, string> found = StoreCursors.ReadAll(directory, id)
            .Where(cursor => cursor.File.EndsWith(".group", StringComparison.Ordinal))
            .ToDictionary(
                cursor => StoreCursors.NameOf(cursor.File)["group/".Length..],
                cursor => cursor.IsDamaged ? "corrupt" : $"{cursor.Offset}");
        foreach (string name in found.Keys.Union(expected.Floors.Keys))
        {
            string wanted = expected.Floors.TryGetValue(name, out JsonElement floor) ? floor.ToString() : "none";
            if (found.GetValueOrDefault(name) != wanted)
                yield return $"floor of {name}={found.GetValueOrDefault(name)}, expected={wanted}";
        }
    }

    private static long FindNumber(string path)
    {
        using MappedFileReader reader = MappedFileReader.Open(path);
        return reader.FindNumber(reader.Offset);
    }

    private static IEnumerable<string> Compare(string path, Vectors.Answer expected)
    {
        string opened = TryOpen(path, out MappedFileReader? reader);
        using (reader)
        {
            if (opened != expected.Open)
                return [$"open={opened}, expected={expected.Open}"];
            return reader is null ? [] : [.. CompareMessages(reader, expected), .. CompareCursors(path, expected)];
        }
    }

    private static string TryOpen(string path, out MappedFileReader? reader)
    {
        reader = null;
        try
        {
            reader = MappedFileReader.Open(path);
            return "ok";
        }
        catch (QueueNotFoundException)
        {
            return "not-found";
        }
        catch (QueueFormatException)
        {
            return "format";
        }
    }

    private static List<string> CompareMessages(MappedFileReader reader, Vectors.Answer expected)
    {
        List<string> differences = [];
        Check("structSize", reader.StructSize, expected.Kind == 1 ? expected.StructSize : 0);
        Check("first", reader.Offset, expected.First);
        int count = 0;
        string end;
        try
        {
            for (; reader.TryRead(out ReadOnlySpan<byte> message); count++)
            {
                if (count == expected.Messages.Length)
                    return [.. differences, $"a message too many: offset={reader.Offset}"];
                Vectors.Message wanted = expected.Messages[count];
                Check($"offset of message {count}", reader.MessageOffset, wanted.Offset);
                Check($"next of message {count}", reader.NextOffset, wanted.Next);
                Check($"payload of message {count}", Convert.ToHexStringLower(message), wanted.Payload);
                if (!Matches(reader.HeadersInPlace, wanted.Headers))
                    differences.Add($"headers of message {count}");
            }

            end = "empty";
        }
        catch (QueueCorruptException)
        {
            end = "corrupt";
        }
        catch (OffsetOutOfRangeException)
        {
            end = "removed";
        }

        Check("messages", count, expected.Messages.Length);
        Check("end", $"{end} at {reader.NextOffset}", $"{expected.End!.Kind} at {expected.End.Offset}");
        return differences;

        void Check<T>(string what, T actual, T wanted)
        {
            if (!EqualityComparer<T>.Default.Equals(actual, wanted))
                differences.Add($"{what}={actual}, expected={wanted}");
        }
    }

    private static bool Matches(MessageHeadersView actual, Vectors.Headers? expected)
    {
        if (expected is null || actual.IsEmpty)
            return expected is null == actual.IsEmpty;
        bool hasTrace = actual.TryGetTraceContext(out ActivityContext trace);
        long epoch = DateTimeOffset.UnixEpoch.Ticks;
        long? time = expected.Time is { } value ? Math.Clamp(value, -epoch, DateTimeOffset.MaxValue.Ticks - epoch) + epoch : null;
        return actual.Time?.Ticks == time
            && actual.ProducerId == (expected.Producer?[0] ?? 0)
            && actual.Sequence == (expected.Producer?[1] ?? 0)
            && ((actual.Fields & HeaderField.CarriedProducer) != 0) == expected.Carried
            && hasTrace == (expected.TraceId is not null)
            && (!hasTrace || (trace.TraceId.ToHexString() == expected.TraceId && trace.SpanId.ToHexString() == expected.SpanId
                && (int)trace.TraceFlags == expected.TraceFlags && (trace.TraceState ?? "") == expected.TraceState))
            && ((actual.Fields & HeaderField.Key) != 0) == (expected.Key is not null)
            && Convert.ToHexStringLower(actual.Key) == (expected.Key ?? "");
    }

    private static IEnumerable<string> CompareCursors(string path, Vectors.Answer expected)
    {
        using HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(path, create: false, mode: null)!;
        Dictionary<string, string> found = CursorFile.ReadAll(directory)
            .ToDictionary(cursor => CursorFile.NameOf(cursor.File), cursor => cursor.IsDamaged ? "corrupt" : $"{cursor.Offset}");
        foreach ((string name, JsonElement wanted) in expected.Cursors)
        {
            if (found.GetValueOrDefault(name) != wanted.ToString())
                yield return $"cursor {name}={found.GetValueOrDefault(name)}, expected={wanted}";
        }
    }
}
