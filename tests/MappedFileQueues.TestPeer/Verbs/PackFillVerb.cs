using System.Globalization;
using MappedFileQueues.Packs;
using MappedFileQueues.Tests.Packs;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `pack-fill FOLDER`: does what <see cref="PackFill"/> says to a new pack, writes no checkpoint, prints `filled` and waits to be
/// killed. `pack-watch FOLDER`: follows a pack, gets every object each time it is sent a line, and prints how many were as
/// they should be.
/// </summary>
internal static class PackFillVerb
{
    public static int Fill(string[] arguments)
    {
        using PackStore pack = PackStore.Open(arguments[0]);
        PackFill.Run(pack);
        Console.WriteLine("filled");
        Thread.Sleep(Timeout.Infinite);
        return 0;
    }

    public static int Watch(string[] arguments)
    {
        using PackReader reader = PackReader.Open(arguments[0], new PackReaderOptions { FollowWriter = false });
        Console.WriteLine("ready");
        while (Console.ReadLine() is not null)
        {
            int right = 0;
            int damaged = 0;
            for (int number = 0; number < PackFill.ObjectCount; number++)
            {
                try
                {
                    byte[]? expected = PackFill.Data(number);
                    bool isThere = reader.TryGet(PackFill.Key(number), out System.Buffers.IMemoryOwner<byte>? owner);
                    right += expected is null ? (isThere ? 0 : 1) : isThere && owner!.Memory.Span.SequenceEqual(expected) ? 1 : 0;
                    owner?.Dispose();
                }
                catch (PackCorruptException)
                {
                    damaged++;
                }
            }

            Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"right {right} damaged {damaged}"));
        }

        return 0;
    }
}
