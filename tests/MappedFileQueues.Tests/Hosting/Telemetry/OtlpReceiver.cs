using System.Collections.Concurrent;
using System.Net;
using System.Text;
using Google.Protobuf;
using MappedFileQueues.Demo.Brokers;

namespace MappedFileQueues.Tests.Hosting.Telemetry;

/// <summary>
/// A small collector: takes what OpenTelemetry's exporter sends by HTTP, and reads the protobuf without its schema. A field is a
/// path of numbers in the message; what a test asks for is given by those numbers, from opentelemetry-proto.
/// </summary>
internal sealed class OtlpReceiver : IDisposable
{
    private readonly HttpListener _listener;
    private readonly ConcurrentQueue<(string Path, byte[] Body)> _received = [];

    public OtlpReceiver()
    {
        (_listener, Address) = Listen();
        _ = Task.Run(ServeAsync);
    }

    public string Address { get; }

    /// <summary>
    /// The metrics received so far: name, unit, the attributes of a data point as `key=value`, and its value; for a histogram the
    /// count. ResourceMetrics 1, ScopeMetrics 2, Metric 2: name 1, unit 3; gauge 5, sum 7, histogram 9, each with data points 1.
    /// </summary>
    public IReadOnlyList<(string Name, string Unit, string[] Tags, double Value)> Metrics =>
    [
        .. from body in Bodies("v1/metrics")
           from metric in Fields(body, 1, 2, 2)
           from kind in new[] { 5, 7, 9 }
           from point in Fields(metric, kind, 1)
           select (Text(metric, 1), Text(metric, 3), Tags(point, kind == 9 ? 9 : 7), Value(point, kind == 9)),
    ];

    /// <summary>
    /// The spans. ResourceSpans 1, ScopeSpans 2, Span 2: trace id 1, span id 2, parent 4, name 5, kind 6, attributes 9, links 13,
    /// each with the trace id 1.
    /// </summary>
    public IReadOnlyList<Span> Spans =>
    [
        .. from body in Bodies("v1/traces")
           from span in Fields(body, 1, 2, 2)
           select new Span(
               Text(span, 5), Read(span).First(part => part.Number == 6).Number64, Tags(span, 9), Id(span, 1), Id(span, 2),
               Id(span, 4), [.. Fields(span, 13, 1).Select(Convert.ToHexStringLower)]),
    ];

    /// <summary>A span; the ids as digits, and the parent empty for none.</summary>
    public sealed record Span(
        string Name, ulong Kind, string[] Tags, string TraceId, string SpanId, string ParentId, string[] LinkedTraces);

    public void Dispose() => _listener.Close();

    private IEnumerable<byte[]> Bodies(string path) =>
        _received.Where(received => received.Path.EndsWith(path, StringComparison.Ordinal)).Select(received => received.Body);

    /// <summary>A listener takes a port that somebody else may get between the question and its start.</summary>
    private static (HttpListener Listener, string Address) Listen()
    {
        while (true)
        {
            string address = $"http://127.0.0.1:{BrokerCluster.FreePorts(1)[0]}/";
            HttpListener listener = new();
            listener.Prefixes.Add(address);
            try
            {
                listener.Start();
                return (listener, address);
            }
            catch (HttpListenerException)
            {
                listener.Close();
            }
        }
    }

    private async Task ServeAsync()
    {
        while (_listener.IsListening)
        {
            try
            {
                HttpListenerContext context = await _listener.GetContextAsync();
                using MemoryStream body = new();
                await context.Request.InputStream.CopyToAsync(body);
                _received.Enqueue((context.Request.Url!.AbsolutePath, body.ToArray()));
                context.Response.ContentType = "application/x-protobuf";
                context.Response.Close();
            }
            catch (Exception error) when (error is HttpListenerException or ObjectDisposedException)
            {
                return;
            }
        }
    }

    private static string Id(byte[] message, int field) =>
        Convert.ToHexStringLower(Fields(message, field).FirstOrDefault() ?? []);

    private static string Text(byte[] message, int field) => Encoding.UTF8.GetString(Fields(message, field).First());

    /// <summary>KeyValue: key 1, value 2; AnyValue: string 1, int 3.</summary>
    private static string[] Tags(byte[] message, int field) =>
    [
        .. from pair in Fields(message, field)
           let value = Read(Fields(pair, 2).First()).First()
           select $"{Text(pair, 1)}={(value.Number == 1 ? Encoding.UTF8.GetString(value.Bytes) : value.Number64)}",
    ];

    /// <summary>NumberDataPoint: double 4, int 6; HistogramDataPoint: count 4. All of 8 bytes.</summary>
    private static double Value(byte[] point, bool isCount)
    {
        (int number, byte[] _, ulong value) = Read(point).First(field => field.Number == 4 || (field.Number == 6 && !isCount));
        return number == 4 && !isCount ? BitConverter.UInt64BitsToDouble(value) : (long)value;
    }

    private static IEnumerable<byte[]> Fields(byte[] message, params int[] path) => path.Aggregate(
        (IEnumerable<byte[]>)[message],
        (messages, number) => messages.SelectMany(Read).Where(field => field.Number == number).Select(field => field.Bytes));

    private static List<(int Number, byte[] Bytes, ulong Number64)> Read(byte[] message)
    {
        List<(int, byte[], ulong)> fields = [];
        using CodedInputStream input = new(message);
        while (input.ReadTag() is var tag and not 0)
        {
            int number = WireFormat.GetTagFieldNumber(tag);
            fields.Add(WireFormat.GetTagWireType(tag) switch
            {
                WireFormat.WireType.LengthDelimited => (number, input.ReadBytes().ToByteArray(), 0),
                WireFormat.WireType.Fixed64 => (number, [], input.ReadFixed64()),
                WireFormat.WireType.Fixed32 => (number, [], input.ReadFixed32()),
                _ => (number, [], input.ReadUInt64()),
            });
        }

        return fields;
    }
}
