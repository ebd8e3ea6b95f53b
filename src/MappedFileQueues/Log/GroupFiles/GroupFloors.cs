using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.GroupFiles;

/// <summary>The floors of all groups.</summary>
internal sealed class GroupFloors(HeldDirectory directory, Guid storeId, ControlPage control, bool isPortable)
    : PlaceFiles(directory, control, isPortable)
{
    protected override IEnumerable<string> List() => GroupFile.Names(Directory).Select(StoreNames.Group);

    protected override MappedPlace? TryMap(string file)
    {
        // Identified first: when it is replaced in between, the next look at its name finds that out.
        return Directory.Identify(file) is { } identity && GroupFile.MapForReading(Directory, storeId, file) is { } region
            ? new MappedGroup(file, identity, region, new GroupTable(region))
            : null;
    }

    protected override long Read(MappedPlace place) => GroupScan.FindFloor(((MappedGroup)place).Table, place.File);

    protected override long Read(string file)
    {
        using MappedRegion? region = GroupFile.MapForReading(Directory, storeId, file);
        return region is null ? long.MaxValue : GroupScan.FindFloor(new GroupTable(region), file);
    }

    private sealed record MappedGroup(string File, FileIdentity Identity, MappedRegion Region, GroupTable Table)
        : MappedPlace(File, Identity, Region);
}
