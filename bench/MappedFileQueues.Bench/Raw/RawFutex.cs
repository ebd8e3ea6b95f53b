using System.Runtime.InteropServices;

namespace MappedFileQueues.Bench.Raw;

/// <summary>Bare futex calls on a word in a shared mapping: what sleeping and waking cost without a queue around them.</summary>
internal static unsafe partial class RawFutex
{
    private const int WaitOperation = 0;
    private const int WakeOperation = 1;

    /// <summary>The system call exists on this system.</summary>
    public static bool IsSupported =>
        OperatingSystem.IsLinux() && RuntimeInformation.ProcessArchitecture is Architecture.X64 or Architecture.Arm64;

    private static nint FutexCall => RuntimeInformation.ProcessArchitecture == Architecture.X64 ? 202 : 98;

    /// <summary>Sleeps until the word is another than <paramref name="seen"/>.</summary>
    public static void WaitWhile(ref int word, int seen)
    {
        fixed (int* address = &word)
        {
            while (Volatile.Read(ref word) == seen)
                _ = SystemCall(FutexCall, (nint)address, WaitOperation, seen, 0, 0, 0);
        }
    }

    /// <summary>Raises the word by one and wakes a sleeper.</summary>
    public static void Bump(ref int word)
    {
        fixed (int* address = &word)
        {
            Interlocked.Increment(ref word);
            _ = SystemCall(FutexCall, (nint)address, WakeOperation, 1, 0, 0, 0);
        }
    }

    [LibraryImport("libc", EntryPoint = "syscall")]
    private static partial nint SystemCall(
        nint number, nint address, nint operation, nint value, nint timeout, nint address2, nint value3);
}
