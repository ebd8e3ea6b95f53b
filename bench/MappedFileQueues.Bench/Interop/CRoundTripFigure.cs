using MappedFileQueues.Bench.Figures;
using MappedFileQueues.Bench.Processes;

namespace MappedFileQueues.Bench.Interop;

/// <summary>Microseconds from a message of C# to the answer of a process whose consumer and producer are those of C.</summary>
internal sealed class CRoundTripFigure(ChildContext context) : RoundTripFigure(context)
{
    public const string FigureName = "roundtrip_c";

    protected override IReadOnlyList<(string Name, string Unit)> Values =>
        [.. base.Values.Select(value => (value.Name.Replace("roundtrip", FigureName, StringComparison.Ordinal), value.Unit))];

    protected override void PrepareAnswers(MappedFileQueue<Message64> output, long bytes)
    {
        using MappedFileProducer<Message64> producer = output.OpenProducer();
        producer.Prepare(bytes);
    }

    protected override ulong Answer(MappedFileQueue<Message64> output, MappedFileQueue<Message64> input, long count)
    {
        CLibrary.Load(Context);
        CLibrary.Check("mfq_producer_open", CLibrary.OpenProducer(
            Context.Path("pong"), CLibrary.ProducerOptions.Exclusive, out nint producer, 0));
        CLibrary.Check("mfq_consumer_open", CLibrary.OpenConsumer(Context.Path("ping"), "", 0, out nint consumer, 0));
        Rendezvous.MeetToStart();
        ulong sum = CLibrary.Answer(consumer, producer, ref Message, count);
        CLibrary.CloseConsumer(consumer);
        CLibrary.CloseProducer(producer);
        return sum;
    }
}
