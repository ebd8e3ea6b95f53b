using System.Globalization;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// `locks/slots`, mapped: decides which process may own a claim. The kernel lock on a slot's own file holds the slot. Under that
/// lock, before its first claim, the new holder raises the slot's generation. Without generations, a process that takes over the
/// slot of a dead one would keep that one's claims alive for ever.
/// </summary>
internal sealed unsafe class SlotTable : IDisposable
{
    private readonly HeldDirectory _directory;
    private readonly OperatingSystemServices _os;
    private readonly MappedRegion _region;

    /// <summary>
    /// Maps the table. A lone opener creates the file when it is missing or short, and always asks for its blocks, because an
    /// earlier opener may have created the file on a full disk without getting any.
    /// </summary>
    public SlotTable(HeldDirectory directory, OperatingSystemServices os, bool isAlone)
    {
        _directory = directory;
        _os = os;
        using PlatformFile file = directory.Open(
            StoreNames.Slots, isAlone ? FileOpening.ReadWriteOrCreate : FileOpening.ReadWrite)
            ?? throw MetaLock.CannotJoin(directory, StoreNames.Meta);
        bool isShort = file.Length < SlotLayout.FileLength;
        if (isShort)
            file.SetLength(SlotLayout.FileLength);
        if (isShort || isAlone)
            file.Allocate(0, SlotLayout.FileLength);

        _region = MappedRegion.MapWhole(file, SlotLayout.FileLength, writable: true);
    }

    /// <summary>
    /// Makes the missing files of slots that were used. For a lone opener: beside others, such a file is missing because it was
    /// removed, perhaps while it was held.
    /// </summary>
    public void MakeMissingFiles()
    {
        for (int slot = 0; slot < SlotLayout.SlotCount; slot++)
        {
            if (Generation(slot) > 0 && _directory.Identify(StoreNames.SlotLock(slot)) is null)
                _directory.Open(StoreNames.SlotLock(slot), FileOpening.ReadWriteOrCreate)!.Dispose();
        }
    }

    /// <summary>Takes a free slot; <see cref="QueueInUseException"/> when all 4,096 are held or worn out.</summary>
    public OwnerSlot Take()
    {
        QueueDiskException? denied = null;
        for (int slot = 0; slot < SlotLayout.SlotCount; slot++)
        {
            PlatformLock? held = null;
            try
            {
                held = _directory.TryLock(
                    StoreNames.SlotLock(slot), LockKind.Exclusive, create: Generation(slot) == 0);
            }
            catch (QueueDiskException error) when (error.Errno == DiskErrors.EACCES)
            {
                // Another user's file that this one may not open: the next slot is as good.
                denied ??= error;
            }

            if (held is null)
                continue;
            ProtocolSteps.Reach(ProtocolStep.SlotTaken);
            // P12 acquire: the generation that the last holder raised; pairs with P12 release below.
            uint generation = SharedWord.ReadAcquire(GenerationOf(slot));
            if (generation >= SlotLayout.GenerationMax)
            {
                held.Dispose();
                continue;
            }

            if (PlantedFaults.Has(PlantedFault.GenerationNotRaised) && generation > 0)
                generation--;
            *(uint*)(_region.Pointer + SlotLayout.EntryAt(slot) + 4) = (uint)Environment.ProcessId;
            *(long*)(_region.Pointer + SlotLayout.EntryAt(slot) + 8) = _os.ProcessStartTime(Environment.ProcessId);
            // P12 release: raised before the first claim; pairs with P12 acquire in Generation.
            SharedWord.WriteRelease(GenerationOf(slot), generation + 1);
            return new OwnerSlot(slot, generation + 1, held);
        }

        throw denied as Exception ?? new QueueInUseException(
            $"No free producer slot: path={_directory.Path}, slots={SlotLayout.SlotCount}. "
            + "Close some producers, or close every queue on the store once so that worn-out slots are reset.");
    }

    /// <summary>The current generation of a slot.</summary>
    // P12 acquire: pairs with P12 release in Take.
    public uint Generation(int slot) => SharedWord.ReadAcquire(GenerationOf(slot));

    /// <summary>The process that last took the slot, to name it in messages.</summary>
    public int ProcessId(int slot) => *(int*)(_region.Pointer + SlotLayout.EntryAt(slot) + 4);

    /// <summary>Resets worn-out slots. Only alone, after all claims were turned into padding.</summary>
    public void ResetWornOut()
    {
        for (int slot = 0; slot < SlotLayout.SlotCount; slot++)
        {
            if (Generation(slot) >= SlotLayout.GenerationMax)
                // P12 release: no other process is attached; pairs with P12 acquire in Take.
                SharedWord.WriteRelease(GenerationOf(slot), 0);
        }
    }

    public void Dispose() => _region.Dispose();

    private uint* GenerationOf(int slot) => (uint*)(_region.Pointer + SlotLayout.EntryAt(slot));
}

/// <summary>A slot that this queue holds from its first producer to the end of its last one's drain.</summary>
internal sealed class OwnerSlot(int index, uint generation, PlatformLock held) : IDisposable
{
    public int Index => index;

    /// <summary>Marks the holder's temporary files: no later holder of the slot has the same name.</summary>
    public string Name => string.Create(CultureInfo.InvariantCulture, $"{index:D4}-{generation}");

    /// <summary>The high half of this queue's claimed headers.</summary>
    public uint Owner => SlotLayout.Owner(index, generation);

    public void Dispose() => held.Dispose();
}
