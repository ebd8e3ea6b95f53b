namespace MappedFileQueues.Tests.Packs;

/// <summary>
/// What a writer that is going to be killed does, operation by operation, so that whoever looks at the pack afterwards knows
/// what has to be in it: everything follows from the lane and the operation's number.
/// </summary>
internal static class PackStorm
{
    /// <summary>How many keys each lane has; lanes share none.</summary>
    public const int KeyCount = 30;

    /// <summary>The key that an operation puts or deletes.</summary>
    public static string Key(int lane, int operation) => KeyOf(lane, Mix(lane, operation) % KeyCount);

    public static string KeyOf(int lane, int key) => $"lane {lane} key {key}";

    /// <summary>What it puts; null when it deletes.</summary>
    public static byte[]? Data(int lane, int operation)
    {
        int mixed = Mix(lane, operation + 1_000_000);
        if (mixed % 5 == 0)
            return null;
        int length = mixed % 40 == 1 ? 300_000 : mixed % 700;
        byte[] data = new byte[length];
        for (int i = 0; i < length; i++)
            data[i] = (byte)(mixed >> (i & 7));
        return data;
    }

    private static int Mix(int lane, int operation)
    {
        uint mixed = ((uint)operation * 2654435761) ^ ((uint)lane * 40503);
        mixed ^= mixed >> 15;
        mixed *= 2246822519;
        return (int)((mixed ^ (mixed >> 13)) & 0x3FFFFFFF);
    }
}
