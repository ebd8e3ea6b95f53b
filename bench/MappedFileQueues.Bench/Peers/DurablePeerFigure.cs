using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;

namespace MappedFileQueues.Bench.Peers;

/// <summary>One side of a durable figure: what is read back, and what a caller of its own appends with.</summary>
/// <param name="Queue">Opened for the whole figure.</param>
/// <param name="NewCaller">Appends the messages 0 to n - 1, each call or batch on the disk when it returns.</param>
/// <param name="StartWork">
/// What has to run besides the callers; it ends before the other side's turn, for which it would take a CPU. Null for nothing.
/// </param>
internal sealed record DurableSide(BenchQueue Queue, Func<Func<int, Task>> NewCaller, Func<IDisposable>? StartWork = null);

/// <summary>
/// Messages a second that one caller, or many at once, append durably: a peer and ours in turn. Callers are threads, or tasks
/// where the peer is made for them. All messages are read back and added up after each repetition.
/// </summary>
/// <param name="context">The process.</param>
/// <param name="callerCount">How many callers.</param>
/// <param name="isAsynchronous">Whether callers are tasks.</param>
/// <param name="each">What each caller appends in a repetition.</param>
/// <param name="warmUpCount">What the one caller appends in a call while code is compiled.</param>
internal sealed class DurablePeerFigure(
    ChildContext context, int callerCount, bool isAsynchronous, int each, int warmUpCount = 2)
{
    public IReadOnlyList<Samples> Measure(
        Func<string, DurableSide> openPeer, Func<GroupQueue, Func<Func<int, Task>>> callerOfOurs)
    {
        string peerPath = context.Path("peer");
        string oursPath = context.Path("store");
        Samples samples;
        using (GroupQueue queue = new(oursPath))
        {
            queue.LeaveStart();
            DurableSide ours = new(queue, callerOfOurs(queue));
            DurableSide peer = openPeer(peerPath);
            using (peer.Queue)
            {
                Compile(peer, ours);
                samples = Interleaved.Run(
                    context.Task.Role,
                    "msg/s",
                    context.Repetitions,
                    () => Measure(peer),
                    () =>
                    {
                        double rate = Measure(ours);
                        return queue.IsConfirmed ? rate : throw new ToolException(
                            $"Messages that were acknowledged are not confirmed: figure={context.Task.Role}.");
                    });
            }
        }

        PeerSides.Delete(peerPath);
        PeerSides.Delete(oursPath);
        return [samples];
    }

    private void Compile(DurableSide peer, DurableSide ours)
    {
        Func<int, Task> peerCaller = peer.NewCaller();
        Func<int, Task> ourCaller = ours.NewCaller();
        WarmUp.UntilCompiled(() =>
        {
            using (peer.StartWork?.Invoke())
                peerCaller(warmUpCount).GetAwaiter().GetResult();
            ourCaller(warmUpCount).GetAwaiter().GetResult();
            _ = peer.Queue.Read(warmUpCount);
            _ = ours.Queue.Read(warmUpCount);
        });
    }

    private double Measure(DurableSide side)
    {
        Func<int, Task>[] callers = [.. Enumerable.Range(0, callerCount).Select(_ => side.NewCaller())];
        long count = (long)each * callerCount;
        long ticks;
        using (side.StartWork?.Invoke())
            ticks = isAsynchronous ? AppendInTasks(callers) : AppendInThreads(callers);
        Sums.Check(context.Task.Role, side.Queue.Read(count), (ulong)callerCount * Message64.ExpectedSum(each));
        return count * 1e9 / Clock.Nanoseconds(ticks);
    }

    private long AppendInTasks(Func<int, Task>[] callers)
    {
        long start = Clock.Now;
        Task.WhenAll(callers.Select(caller => Task.Run(() => caller(each)))).GetAwaiter().GetResult();
        return Clock.Now - start;
    }

    private long AppendInThreads(Func<int, Task>[] callers)
    {
        using Barrier begin = new(callers.Length + 1);
        Task[] all = [.. callers.Select(caller => Task.Factory.StartNew(
            () =>
            {
                begin.SignalAndWait();
                caller(each).GetAwaiter().GetResult();
            },
            CancellationToken.None,
            TaskCreationOptions.LongRunning,
            TaskScheduler.Default))];
        begin.SignalAndWait();
        long start = Clock.Now;
        Task.WhenAll(all).GetAwaiter().GetResult();
        return Clock.Now - start;
    }
}
