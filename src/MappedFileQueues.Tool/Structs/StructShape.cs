namespace MappedFileQueues.Tool.Structs;

/// <summary>A struct as it is in memory: its fields, in the order of their offsets.</summary>
/// <param name="Name">The name that it has in the other language.</param>
/// <param name="Source">Its name in .NET.</param>
/// <param name="Size">Its size in bytes.</param>
/// <param name="Fields">Its fields.</param>
internal sealed record StructShape(string Name, string Source, int Size, IReadOnlyList<FieldShape> Fields)
{
    /// <summary>Fields share bytes.</summary>
    public bool IsUnion { get; } = Fields.Zip(Fields.Skip(1)).Any(pair => pair.First.End > pair.Second.Offset);

    /// <summary>The multiple at which a C compiler places it.</summary>
    public int Alignment => IsPacked ? 1 : AlignmentMax;

    /// <summary>A C compiler would place a field, or the end, elsewhere.</summary>
    public bool IsPacked => IsUnion || Size % AlignmentMax != 0 || Fields.Any(each => each.Offset % each.Alignment != 0);

    private int AlignmentMax => Fields.Select(each => each.Alignment).DefaultIfEmpty(1).Max();

    /// <summary>The fields with what is between them, after them, and instead of them.</summary>
    public IEnumerable<FieldShape> WithPadding()
    {
        int at = 0;
        int number = 0;
        foreach (FieldShape field in Fields)
        {
            if (field.Offset > at)
                yield return Padding(at, field.Offset - at);
            yield return field;
            at = field.End;
        }

        if (at < Size)
            yield return Padding(at, Size - at);

        FieldShape Padding(int offset, int length) => FieldShape.Padding($"padding{number++}", offset, length);
    }

    /// <summary>The structs in it, each before those that have it, and itself last.</summary>
    public IEnumerable<StructShape> WithInner() =>
        Fields.SelectMany(field => field.Struct?.WithInner() ?? []).Append(this).DistinctBy(shape => shape.Name);
}

/// <summary>A field of a struct.</summary>
/// <param name="Name">The name that it has in the other language.</param>
/// <param name="Offset">Where it is.</param>
/// <param name="Kind">Its primitive type, or that of its elements; null for a struct.</param>
/// <param name="Struct">Its struct, or that of its elements; null for a primitive.</param>
/// <param name="Counts">How many elements it has, the outer arrays first; none for a single value.</param>
/// <param name="Note">What it is in .NET, where the type does not tell.</param>
internal sealed record FieldShape(
    string Name, int Offset, PrimitiveKind? Kind, StructShape? Struct, IReadOnlyList<int> Counts, string? Note)
{
    /// <summary>The offset after it.</summary>
    public int End => Offset + (ElementSize * Counts.Aggregate(1, (all, count) => all * count));

    /// <summary>The multiple at which a C compiler places it.</summary>
    public int Alignment => Kind?.Size ?? Struct!.Alignment;

    private int ElementSize => Kind?.Size ?? Struct!.Size;

    public static FieldShape Padding(string name, int offset, int length) =>
        new(name, offset, PrimitiveKind.Of(typeof(byte)), null, [length], null);
}

/// <summary>A primitive type, and what it is elsewhere.</summary>
/// <param name="Size">Its size.</param>
/// <param name="C">That of C.</param>
/// <param name="Python">That of ctypes.</param>
/// <param name="Numpy">That of numpy.</param>
/// <param name="Note">What it is in .NET, where these do not tell.</param>
internal sealed record PrimitiveKind(int Size, string C, string Python, string Numpy, string? Note = null)
{
    private static readonly Dictionary<TypeCode, PrimitiveKind> s_kinds = new()
    {
        [TypeCode.Boolean] = new(1, "uint8_t", "c_uint8", "u1", "bool: 0 or 1"),
        [TypeCode.Char] = new(2, "uint16_t", "c_uint16", "<u2", "char: a unit of UTF-16"),
        [TypeCode.SByte] = new(1, "int8_t", "c_int8", "i1"),
        [TypeCode.Byte] = new(1, "uint8_t", "c_uint8", "u1"),
        [TypeCode.Int16] = new(2, "int16_t", "c_int16", "<i2"),
        [TypeCode.UInt16] = new(2, "uint16_t", "c_uint16", "<u2"),
        [TypeCode.Int32] = new(4, "int32_t", "c_int32", "<i4"),
        [TypeCode.UInt32] = new(4, "uint32_t", "c_uint32", "<u4"),
        [TypeCode.Int64] = new(8, "int64_t", "c_int64", "<i8"),
        [TypeCode.UInt64] = new(8, "uint64_t", "c_uint64", "<u8"),
        [TypeCode.Single] = new(4, "float", "c_float", "<f4"),
        [TypeCode.Double] = new(8, "double", "c_double", "<f8"),
    };

    /// <summary>What a primitive type is; null for another type.</summary>
    public static PrimitiveKind? Of(Type type) =>
        type.IsPrimitive ? s_kinds.GetValueOrDefault(Type.GetTypeCode(type)) : null;
}
