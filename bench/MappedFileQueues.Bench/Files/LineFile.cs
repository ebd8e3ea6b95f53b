using MappedFileQueues.Files;

namespace MappedFileQueues.Bench.Files;

/// <summary>What file the lines go into, on every side.</summary>
/// <param name="Suffix">Behind `lines_1` and `lines_4`.</param>
/// <param name="IsNew">A file that is not there before, whose blocks the system gives while it is written.</param>
/// <param name="IsFlushed">The disk has all of it when the time ends.</param>
/// <param name="Note">For the reader of the figures.</param>
internal sealed record LineFile(string Suffix, bool IsNew, bool IsFlushed, string Note)
{
    public static readonly LineFile Written = new(
        "", IsNew: false, IsFlushed: false, "over blocks that were written before, without a flush to the disk.");

    public static readonly LineFile New = new("_new", IsNew: true, IsFlushed: false, "a new file, without a flush to the disk.");

    /// <summary>What a user meets who names no option.</summary>
    public static readonly LineFile Default = new(
        "_default", IsNew: true, IsFlushed: true,
        "a new file with the default options, which flush at the closing; the peer does too.");

    /// <summary>Ours: the options it has by itself, but for the flush and the blocks.</summary>
    public AppendFileOptions OptionsFor(long length)
    {
        AppendFileOptions options = new();
        if (!IsFlushed)
            options = options with { Durability = AppendDurability.PageCache };
        return IsNew ? options : options with
        {
            Content = FileContent.Text,
            Preallocation = FileRoom.Reused.Preallocation,
            PreallocationLength = length,
        };
    }
}
