using MappedFileQueues.Bench.Figures;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;

namespace MappedFileQueues.Bench.Peers;

/// <summary>From one process to another, into a store that was just made, beside a SQLite table in both processes.</summary>
internal sealed class SqlitePairFigure(ChildContext context) : ProcessToProcessFigure(context, isCold: true)
{
    protected override long WarmUpCount => 5_000;

    protected override long Count => PeerRoles.CountOfSqlite(Context);

    protected override double[] MeasureRaw(long count)
    {
        string path = Context.Path("sqlite");
        if (!IsFirst)
            Rendezvous.Meet();
        double rate;
        using (SqliteQueue queue = new(path))
        {
            if (IsFirst)
                Rendezvous.Meet();
            rate = Stream(queue, count);
            Rendezvous.Meet();
        }

        Rendezvous.Meet();
        if (IsFirst)
            PeerSides.Delete(path);
        return [rate];
    }
}
