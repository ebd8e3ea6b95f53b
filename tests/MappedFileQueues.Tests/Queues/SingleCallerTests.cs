using System.Reflection;
using System.Runtime.CompilerServices;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Queues;

/// <summary>
/// The mark of a thread that has ended, under which another one calls that got its stack. Addresses stand for stacks here: to get
/// one to the byte, from the system, takes thousands of threads.
/// </summary>
public sealed unsafe class SingleCallerTests
{
    private readonly Called _calls = new();

    private static byte* StackOfEnded => (byte*)0x7000_0000_0000;

    /// <summary>
    /// The first call of a consumer took the reader over on its slow path, which is deeper in the stack: what was known of the
    /// stack ended below the fast path, and each further message took the slow one (40 ns instead of 13).
    /// </summary>
    [Fact]
    public void Consume_AsTheFirstCall_LeavesTheFastPathToTheNext()
    {
        using var folder = new TempStore();
        using var queue = new MappedFileQueue<long>(new MappedFileQueueOptions { StorePath = folder.StorePath });
        queue.Producer.Produce(1);
        queue.Consumer.Consume(out _);
        FieldInfo field = typeof(MappedFileConsumer<long>).GetField("_reader", BindingFlags.Instance | BindingFlags.NonPublic)!;

        Assert.True(AsDeepAsConsume((LogReader)field.GetValue(queue.Consumer)!));

        [MethodImpl(MethodImplOptions.NoInlining)]
        static bool AsDeepAsConsume(LogReader reader) => Deeper(reader);

        [MethodImpl(MethodImplOptions.NoInlining)]
        static bool Deeper(LogReader reader) => reader.TryCopyInCall(out long _);
    }

    /// <summary>
    /// One thread marked its call under the mark of the ended one, found that another had announced itself, and left the mark
    /// set: the object was in a call for ever, and its Dispose waited for ever.
    /// </summary>
    [Fact]
    public void Take_MarkedUnderTheMarkOfAnEndedThread_IsNotInItsOwnWay()
    {
        CallAndEnd();
        Assert.True(_calls.TryBegin(StackOfEnded, out _));

        // As if TryBegin had met the announcement of a third.
        Assert.True(_calls.Take(StackOfEnded));

        Assert.Equal(Thread.CurrentThread, _calls.Owner.Thread);
        _calls.EndCall();
        Assert.False(_calls.IsInCall);
        BackgroundCall.Start(() => Assert.True(_calls.Take(StackOfEnded + (1 << 20)))).Join();
    }

    /// <summary>
    /// The mark knows the stack 8 KiB deep. A thread that entered under the mark of an ended one and left deeper was not known
    /// when it left, with the same end.
    /// </summary>
    [Fact]
    public void LeaveIfEntered_BelowTheStackOfAnEndedThread_Leaves()
    {
        CallAndEnd();
        byte* high = StackOfEnded;
        byte* deep = high - CallMark.StackLength - 64;
        Assert.True(_calls.TryBegin(high, out _));

        _calls.TakeFromEnded();
        _calls.EndIfBegun(deep);

        Assert.False(_calls.IsInCall);
        Assert.True(_calls.TryBegin(high, out _));
        _calls.EndCall();
    }

    private void CallAndEnd() => BackgroundCall.Start(() =>
    {
        Assert.True(_calls.Take(StackOfEnded));
        _calls.EndCall();
    }).Join();

    private sealed class Called : SingleCaller;
}
