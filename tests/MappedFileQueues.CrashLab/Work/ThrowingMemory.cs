using System.Buffers;

namespace MappedFileQueues.CrashLab.Work;

/// <summary>A message that calls back, then throws, when it is looked at.</summary>
internal sealed class ThrowingMemory(int length, Action before) : MemoryManager<byte>
{
    public override Memory<byte> Memory => CreateMemory(length);

    public override Span<byte> GetSpan()
    {
        before();
        throw new TimeoutException("the message's own");
    }

    public override MemoryHandle Pin(int elementIndex = 0) => throw new NotSupportedException();

    public override void Unpin()
    {
    }

    protected override void Dispose(bool disposing)
    {
    }
}
