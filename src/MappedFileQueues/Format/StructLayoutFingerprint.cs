using System.Diagnostics;
using System.Diagnostics.CodeAnalysis;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Format;

/// <summary>
/// A hash of a struct's managed layout: field offsets, sizes and kinds, recursively. A store uses it to refuse another struct of
/// equal size; names do not count.
/// <para>Marshal's layout differs, so it is not used: each field of a boxed instance is set to all ones, and the bytes that
/// changed show where it is. A struct with a pointer or a native integer is refused: an address means nothing to another
/// process, and its size differs between machines.</para>
/// </summary>
internal static class StructLayoutFingerprint
{
    private const ulong FnvOffset = 14695981039346656037;
    private const ulong FnvPrime = 1099511628211;

    /// <exception cref="ArgumentException">The struct has a field that is a pointer or a native integer.</exception>
    public static ulong Of<T>()
        where T : unmanaged
    {
        ulong hash = FnvOffset;
        Add(ref hash, Unsafe.SizeOf<T>());
        AddFields(ref hash, typeof(T), 0);
        // 0 means "no struct" in the meta page.
        return hash == 0 ? 1 : hash;
    }

    [UnconditionalSuppressMessage("Trimming", "IL2070", Justification =
        "The fields of a struct that is used as a message determine its size and are never trimmed: "
        + "value types keep their layout.")]
    private static void AddFields(ref ulong hash, Type type, int offset)
    {
        FieldInfo[] fields = type.GetFields(BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic);
        foreach (FieldInfo field in fields)
            ThrowIfOfThisProcess(field);
        Array.Sort(fields, (a, b) => OffsetOf(type, a).CompareTo(OffsetOf(type, b)));
        foreach (FieldInfo field in fields)
            AddField(ref hash, field.FieldType, offset + OffsetOf(type, field));
    }

    private static void AddField(ref ulong hash, Type type, int at)
    {
        Type kind = type.IsEnum ? Enum.GetUnderlyingType(type) : type;
        int size = SizeOf(kind);
        Add(ref hash, at);
        Add(ref hash, size);
        if (Nullable.GetUnderlyingType(kind) is { } inner)
        {
            // A nullable value cannot be boxed as itself, so its two fields are derived: a flag comes first, the value last.
            Add(ref hash, KindOf(typeof(bool)));
            AddField(ref hash, inner, at + size - SizeOf(inner));
        }
        else if (kind.IsPrimitive)
        {
            Add(ref hash, KindOf(kind));
        }
        else
        {
            AddFields(ref hash, kind, at);
        }
    }

    private static void ThrowIfOfThisProcess(FieldInfo field)
    {
        Type kind = Nullable.GetUnderlyingType(field.FieldType) ?? field.FieldType;
        if (!kind.IsPointer && !kind.IsFunctionPointer && kind != typeof(nint) && kind != typeof(nuint))
            return;
        throw new ArgumentException(
            "A message cannot hold a pointer or a native integer; both are valid in one process only: "
            + $"struct={field.DeclaringType}, field={field.Name}, type={kind}. Use long, or an offset.");
    }

    /// <summary>Stable numbers, whatever later runtimes change in <see cref="TypeCode"/>.</summary>
    private static int KindOf(Type type) => Type.GetTypeCode(type) switch
    {
        TypeCode.Boolean => 1,
        TypeCode.Char => 2,
        TypeCode.SByte => 3,
        TypeCode.Byte => 4,
        TypeCode.Int16 => 5,
        TypeCode.UInt16 => 6,
        TypeCode.Int32 => 7,
        TypeCode.UInt32 => 8,
        TypeCode.Int64 => 9,
        TypeCode.UInt64 => 10,
        TypeCode.Single => 11,
        TypeCode.Double => 12,
        _ => throw new UnreachableException(),
    };

    /// <summary>The size of a type's values.</summary>
    public static int SizeOf(Type type) => RuntimeHelpers.SizeOf(type.TypeHandle);

    /// <summary>Where a field is in a struct.</summary>
    public static int OffsetOf(Type type, FieldInfo field)
    {
        object box = Box(type);
        Span<byte> bytes = BytesOf(box, SizeOf(type));
        // A box of a nullable type is a box of its value. Setting it also sets the flag, which comes first.
        Type boxed = Nullable.GetUnderlyingType(field.FieldType) ?? field.FieldType;
        object ones = Box(boxed);
        BytesOf(ones, SizeOf(boxed)).Fill(0xFF);
        field.SetValue(box, ones);
        return Math.Max(0, bytes.IndexOfAnyExcept((byte)0));
    }

    [UnconditionalSuppressMessage("Trimming", "IL2067", Justification =
        "A boxed struct of zeros; no constructor runs. AddFields explains why its fields are kept.")]
    private static object Box(Type type) => RuntimeHelpers.GetUninitializedObject(type);

    private static void Add(ref ulong hash, int value)
    {
        for (int shift = 0; shift < 32; shift += 8)
            hash = (hash ^ (byte)(value >> shift)) * FnvPrime;
    }

    private static Span<byte> BytesOf(object box, int size) =>
        MemoryMarshal.CreateSpan(ref Unsafe.As<RawData>(box).First, size);

    /// <summary>Stands for any boxed value: its first field is at the beginning of the value.</summary>
    private sealed class RawData
    {
        public byte First;
    }
}
