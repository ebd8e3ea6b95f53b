using MappedFileQueues.Packs;

namespace MappedFileQueues.Tests.Packs;

/// <summary>1,000 puts, 500 of them overwritten, 100 of the others deleted, a few of all durable; no checkpoint.</summary>
internal static class PackFill
{
    public const int ObjectCount = 1000;
    public const int OverwrittenCount = 500;
    public const int DeletedCount = 100;

    /// <summary>How many objects there are at the end.</summary>
    public const int LeftCount = ObjectCount - DeletedCount;

    public static string Key(int number) => $"object {number:d4}";

    /// <summary>What an object has at the end; null when it was deleted.</summary>
    public static byte[]? Data(int number) => number >= ObjectCount - DeletedCount ? null
        : number < OverwrittenCount ? Second(number) : First(number);

    public static byte[] First(int number) => Make(150, number);

    public static byte[] Second(int number) => Make(120, number + 5000);

    public static void Run(PackStore pack)
    {
        for (int number = 0; number < ObjectCount; number++)
            pack.Put(Key(number), First(number));
        for (int number = 0; number < OverwrittenCount; number++)
            pack.Put(Key(number), Second(number));
        for (int number = ObjectCount - DeletedCount; number < ObjectCount; number++)
            pack.Delete(Key(number));
        pack.Flush();
    }

    private static byte[] Make(int length, int seed)
    {
        byte[] bytes = new byte[length];
        new Random(seed).NextBytes(bytes);
        return bytes;
    }
}
