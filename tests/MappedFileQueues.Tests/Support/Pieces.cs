using System.Buffers;

namespace MappedFileQueues.Tests.Support;

/// <summary>A sequence of several pieces, as a pipe gives it.</summary>
internal sealed class Pieces : ReadOnlySequenceSegment<byte>
{
    private Pieces(ReadOnlyMemory<byte> memory, long index) => (Memory, RunningIndex) = (memory, index);

    /// <summary>A sequence of memories as they are.</summary>
    public static ReadOnlySequence<byte> Join(params ReadOnlySpan<ReadOnlyMemory<byte>> memories)
    {
        var first = new Pieces(memories[0], 0);
        Pieces last = first;
        foreach (ReadOnlyMemory<byte> memory in memories[1..])
        {
            last.Next = new Pieces(memory, last.RunningIndex + last.Memory.Length);
            last = (Pieces)last.Next;
        }

        return new ReadOnlySequence<byte>(first, 0, last, last.Memory.Length);
    }
}
