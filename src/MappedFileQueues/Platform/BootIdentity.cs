using System.Buffers.Binary;

namespace MappedFileQueues.Platform;

/// <summary>
/// Tells whether the page cache that a store was left in still exists: only the kernel that holds it may say so.
/// <code>
///  0 8 id of the kernel's memory (Linux 5.17 and later)   8 8 the second half of the boot id
/// </code>
/// The boot id alone is no witness. LXC and systemd-nspawn give each container one of its own, ProcSubset=pid hides it, and a
/// machine that starts with too little entropy has the same one in each boot. Where the kernel's memory has no id, files hold the
/// whole boot id, as earlier versions wrote it, and that is compared. Windows has a <see cref="BootMoment"/> for a boot id.
/// </summary>
/// <param name="memoryId">The id of the kernel's memory; 0 when it is unknown.</param>
/// <param name="bootId">The boot id; empty when it is unknown.</param>
internal readonly struct BootIdentity(ulong memoryId, Guid bootId)
{
    /// <summary>As files hold it; empty when nothing is known.</summary>
    public Guid Stored
    {
        get
        {
            Span<byte> bytes = stackalloc byte[16];
            bootId.TryWriteBytes(bytes);
            if (memoryId != 0)
                BinaryPrimitives.WriteUInt64LittleEndian(bytes, memoryId);
            return new Guid(bytes);
        }
    }

    /// <summary>Whether memory is what it was when the stored identity was written; false when nobody can know.</summary>
    public bool IsSameAs(Guid stored)
    {
        if (stored == Guid.Empty)
            return false;
        if (stored == Stored || stored == bootId)
            return true;
        if (BootMoment.TryParse(bootId) is { } moment && BootMoment.TryParse(stored) is { } other)
            return moment.IsSameAs(other);
        Span<byte> bytes = stackalloc byte[16];
        Span<byte> own = stackalloc byte[16];
        stored.TryWriteBytes(bytes);
        bootId.TryWriteBytes(own);
        // A process that knows less than the writer has the boot id alone.
        return memoryId != 0
            ? BinaryPrimitives.ReadUInt64LittleEndian(bytes) == memoryId
            : bootId != Guid.Empty && bytes[8..].SequenceEqual(own[8..]);
    }
}
