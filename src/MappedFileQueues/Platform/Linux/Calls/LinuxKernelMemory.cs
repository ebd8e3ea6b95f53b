using System.Buffers.Binary;

namespace MappedFileQueues.Platform.Linux.Calls;

/// <summary>
/// Memory without a name (memfd_create) is in a tmpfs that the kernel mounts for itself when it starts. No namespace shows
/// another one, nothing can be mounted over it, and since Linux 5.17 statfs(2) tells the random id that this tmpfs got then.
/// </summary>
internal static unsafe class LinuxKernelMemory
{
    private const uint TmpfsMagic = 0x01021994;

    private const int FileSystemIdAt = 56;

    /// <summary>The id; 0 when this kernel, or a sandbox, does not tell it.</summary>
    /// <exception cref="QueueDiskException">The process has no descriptor left, or no memory: nothing is known yet.</exception>
    public static ulong ReadId()
    {
        // Without the second flag, vm.memfd_noexec = 2 refuses the call; before Linux 6.3 the flag is unknown.
        using LinuxHandle first = LinuxHandle.OfMemory(LinuxNative.MFD_CLOEXEC | LinuxNative.MFD_NOEXEC_SEAL);
        using LinuxHandle memory = first.IsInvalid ? LinuxHandle.OfMemory(LinuxNative.MFD_CLOEXEC) : first;
        int errno = memory.IsInvalid ? LinuxErrors.Last : 0;
        if (DiskErrors.IsShortage(errno))
            throw LinuxErrors.Make("Cannot identify the kernel's memory", "memfd", errno);
        byte* state = stackalloc byte[LinuxFileSystems.StatfsRoom];
        if (memory.IsInvalid || LinuxNative.fstatfs(memory, state) != 0 || *(uint*)state != TmpfsMagic)
            return 0;
        ulong id = BinaryPrimitives.ReadUInt64LittleEndian(new ReadOnlySpan<byte>(state + FileSystemIdAt, sizeof(ulong)));
        // Kernels without that id tell 0, or the number of the device, which is the same in each boot.
        return (uint)id == 0 || id >> 32 == 0 ? 0 : id;
    }
}
