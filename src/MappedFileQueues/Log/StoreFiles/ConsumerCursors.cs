using System.Runtime.ExceptionServices;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>The stored offsets of all consumers.</summary>
internal sealed unsafe class ConsumerCursors(HeldDirectory directory, ControlPage control, bool isPortable)
    : PlaceFiles(directory, control, isPortable)
{
    /// <summary>Without those that are not there, as that of an unused default consumer: their makers say so.</summary>
    protected override IEnumerable<string> List() =>
        CursorFile.Names(Directory).Where(file => Directory.Identify(file) is not null);

    /// <inheritdoc/>
    /// <remarks>A cursor is shorter while it is being made.</remarks>
    protected override MappedPlace? TryMap(string file)
    {
        try
        {
            using PlatformFile? cursor = Directory.Open(file, FileOpening.Read);
            return cursor is null || cursor.Length < CursorWord.FileLength
                ? null
                : new MappedPlace(file, cursor.Identity, MappedRegion.MapWhole(cursor, CursorWord.FileLength, writable: false));
        }
        catch (QueueDiskException)
        {
            return null;
        }
    }

    protected override long Read(MappedPlace place)
    {
        // P15 acquire: after a waiter has raised the flag; pairs with P15 release in LogConsumer.StoreCursor.
        ulong word = SharedWord.ReadAcquire(place.Region.Word(0));
        return word == CursorWord.New ? long.MaxValue : CursorFile.Parse(Directory, place.File, word);
    }

    protected override long Read(string file)
    {
        StoredCursor cursor = CursorFile.TryRead(Directory, file);
        if (cursor.IsUnknown)
            ExceptionDispatchInfo.Throw(cursor.Error!);
        return cursor.Offset ?? long.MaxValue;
    }
}
