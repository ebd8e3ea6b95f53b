using System.Diagnostics;
using System.Globalization;
using System.IO.MemoryMappedFiles;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Tests.Interop;

/// <summary>
/// The pairs of the memory-order table between C11 atomics and C#: a process in C and a thread here on the words of one file.
/// The forms are those of the table; each pair of an id has one of them.
/// </summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed unsafe class LitmusTests : IDisposable
{
    private const int Rounds = 200_000;
    private const int Sum = 0;
    private const int AtC = 128;
    private const int AtSharp = 256;
    private const int Page = 4096;
    private const int Round = 256;
    private const int WordB = 128;
    private const int Seen = 64;
    private const int SeenBySharp = 192;
    private const int Delays = 64;

    private readonly TempStore _folder = new(createStoreFolder: true);
    private readonly MemoryMappedFile _file;
    private readonly MemoryMappedViewAccessor _view;
    private readonly byte* _base;

    public LitmusTests()
    {
        Path = System.IO.Path.Combine(_folder.StorePath, "words");
        _file = MemoryMappedFile.CreateFromFile(Path, FileMode.CreateNew, null, Page + ((long)Rounds * Round));
        _view = _file.CreateViewAccessor();
        _view.SafeMemoryMappedViewHandle.AcquirePointer(ref _base);
    }

    private string Path { get; }

    /// <summary>P1, P3 and their like: what is stored before a release is seen after the acquire that sees it.</summary>
    [Fact]
    public void Message_WrittenByC_IsWholeHere()
    {
        using ChildProcess child = Start("write");
        Meet(0);
        int wrong = 0;
        for (int i = 0; i < Rounds; i++)
        {
            Await(Word(i, WordB), (ulong)i + 1);
            wrong += *Word(i, 0) == (ulong)i + 1 ? 0 : 1;
        }

        child.ExpectExit();
        Assert.Equal(0, wrong);
    }

    [Fact]
    public void Message_WrittenHere_IsWholeInC()
    {
        using ChildProcess child = Start("read");
        Meet(0);
        for (int i = 0; i < Rounds; i++)
        {
            *Word(i, 0) = (ulong)i + 1;
            SharedWord.WriteRelease(Word(i, WordB), (ulong)i + 1);
        }

        child.ExpectExit();
        Assert.Equal(["0"], child.Lines);
    }

    /// <summary>P2 and its like: a place has one claimant, and no change of a word is lost.</summary>
    [Fact]
    public void Claim_ByBoth_OneGetsIt()
    {
        using ChildProcess child = Start("add");
        Meet(0);
        for (int i = 0; i < Rounds; i++)
        {
            Meet(i + 1);
            if (SharedWord.CompareExchange(Word(i, 0), 0, 2))
                *Word(i, SeenBySharp) = 1;
            ulong sum;
            do
                sum = SharedWord.ReadAcquire(Head(Sum));
            while (!SharedWord.CompareExchange(Head(Sum), sum, sum + 1));
        }

        child.ExpectExit();
        Assert.Equal(2UL * Rounds, *Head(Sum));
        Assert.All(Enumerable.Range(0, Rounds), i => Assert.Equal(1UL, *Word(i, Seen) + *Word(i, SeenBySharp)));
        Assert.InRange(Enumerable.Range(0, Rounds).Count(i => *Word(i, Seen) == 1), 1, Rounds - 1);
    }

    /// <summary>P9 and its like: a sleeper and a waker change a word each, then look at the other's. One sees it.</summary>
    [Fact]
    public void Sleep_WithFullBarriers_OneSeesTheOther() => Assert.Equal(0, CountUnseen("sleep", isFenced: true));

    /// <summary>
    /// Without the barriers both look too early, as the table says of x64: the test above can fail. On a busy machine both sides
    /// can have the same CPU for all the rounds, one after the other; so they get some more.
    /// </summary>
    [Fact]
    public void Sleep_WithoutBarriers_BothAreMissedSometimes()
    {
        long end = Environment.TickCount64 + 60_000;
        while (CountUnseen("sleep-unfenced", isFenced: false) == 0)
        {
            Assert.SkipUnless(Environment.TickCount64 < end, "the two sides never ran at the same moment");
            new Span<byte>(_base, Page + (Rounds * Round)).Clear();
        }
    }

    private int CountUnseen(string test, bool isFenced)
    {
        using ChildProcess child = Start(test);
        Meet(0);
        for (int i = 0; i < Rounds; i++)
        {
            Meet(i + 1);
            SharedWord.WriteRelease(Word(i, WordB), 1);
            if (isFenced)
                Interlocked.MemoryBarrier();
            *Word(i, SeenBySharp) = SharedWord.ReadAcquire(Word(i, 0)) + 1;
        }

        child.ExpectExit();
        return Enumerable.Range(0, Rounds).Count(i => *Word(i, Seen) == 1 && *Word(i, SeenBySharp) == 1);
    }

    public void Dispose()
    {
        _view.SafeMemoryMappedViewHandle.ReleasePointer();
        _view.Dispose();
        _file.Dispose();
        _folder.Dispose();
    }

    private ChildProcess Start(string test) => ChildProcess.Start(
        new ProcessStartInfo(CLibrary.Litmus, [Path, test, Rounds.ToString(CultureInfo.InvariantCulture)]));

    private ulong* Word(int round, int at) => (ulong*)(_base + Page + ((long)round * Round) + at);

    private ulong* Head(int at) => (ulong*)(_base + at);

    private void Meet(int round)
    {
        SharedWord.Exchange(Head(AtSharp), (ulong)round + 1);
        Await(Head(AtC), (ulong)round + 1);
        for (int wait = round / Delays % Delays; wait > 0; wait--)
            _ = Volatile.Read(ref *Head(AtSharp));
    }

    private static void Await(ulong* word, ulong least)
    {
        long end = Environment.TickCount64 + 60_000;
        for (int spins = 0; SharedWord.ReadAcquire(word) < least; spins++)
        {
            if (spins <= 2000)
                continue;
            Thread.Yield();
            Assert.True(Environment.TickCount64 < end, "the other side comes");
        }
    }
}
