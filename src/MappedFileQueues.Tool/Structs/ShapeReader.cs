using System.Diagnostics.CodeAnalysis;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Text;

namespace MappedFileQueues.Tool.Structs;

/// <summary>
/// Finds out how a loaded struct is laid out, by the same means as its fingerprint: a value of all ones in a field shows where
/// the field is. What a queue refuses as a message is refused here.
/// </summary>
[RequiresUnreferencedCode("It reads the fields of types that are loaded at run time.")]
internal sealed class ShapeReader
{
    private readonly Dictionary<Type, StructShape> _shapes = [];
    private readonly HashSet<string> _names = new(StringComparer.Ordinal);

    /// <exception cref="ToolException">No queue can hold the type.</exception>
    public StructShape Read(Type type)
    {
        if (!type.IsValueType || type.IsPrimitive || type.IsEnum || type.IsByRefLike || type.ContainsGenericParameters
            || Nullable.GetUnderlyingType(type) is not null)
            throw Refused(type, "it is no struct, or an open generic one");
        return ReadStruct(type);
    }

    private StructShape ReadStruct(Type type)
    {
        if (_shapes.TryGetValue(type, out StructShape? known))
            return known;
        int size = StructLayoutFingerprint.SizeOf(type);
        HashSet<string> names = new(StringComparer.Ordinal);
        List<FieldShape> fields = [];
        if (Nullable.GetUnderlyingType(type) is { } inner)
        {
            fields.Add(FieldOf(type, "HasValue", typeof(bool), 0, null));
            fields.Add(FieldOf(type, "Value", inner, size - StructLayoutFingerprint.SizeOf(inner), null));
        }
        else
        {
            foreach (FieldInfo field in type.GetFields(BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic))
            {
                if (IsUnusable(field.FieldType))
                    throw Refused(field.FieldType, $"field={type}.{field.Name}: it means nothing to another process");
                fields.Add(FieldOf(
                    type, Unique(Identifier(field.Name), names), field.FieldType, StructLayoutFingerprint.OffsetOf(type, field),
                    field.GetCustomAttribute<FixedBufferAttribute>()));
            }
        }

        // Inner structs first: that is their order in the output.
        StructShape shape = new(
            Unique(Identifier(type.Name), _names), $"{type}", size, [.. fields.OrderBy(field => field.Offset)]);
        _shapes.Add(type, shape);
        return shape;
    }

    private FieldShape FieldOf(Type owner, string name, Type type, int offset, FixedBufferAttribute? buffer)
    {
        List<int> counts = [];
        if (buffer is not null)
        {
            counts.Add(buffer.Length);
            type = buffer.ElementType;
        }

        while (type.GetCustomAttribute<InlineArrayAttribute>() is { } array)
        {
            counts.Add(array.Length);
            type = type.GetFields(BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic)[0].FieldType;
            if (IsUnusable(type))
                throw Refused(type, $"field={owner}.{name}: it means nothing to another process");
        }

        string? note = type.IsEnum ? $"enum {type.Name}" : null;
        Type plain = type.IsEnum ? Enum.GetUnderlyingType(type) : type;
        PrimitiveKind? kind = PrimitiveKind.Of(plain);
        return new FieldShape(name, offset, kind, kind is null ? ReadStruct(plain) : null, counts, note ?? kind?.Note);
    }

    private static bool IsUnusable(Type type) =>
        !type.IsValueType || type.IsPointer || type.IsFunctionPointer || type == typeof(nint) || type == typeof(nuint);

    /// <summary>The name of a field or type, as an identifier in C and Python.</summary>
    private static string Identifier(string name)
    {
        // That of a property's field is <Name>k__BackingField.
        int end = name.IndexOf('>', StringComparison.Ordinal);
        string plain = name.StartsWith('<') && end > 1 ? name[1..end] : name.Split('`')[0];
        StringBuilder text = new();
        foreach (char letter in plain)
            text.Append(char.IsAsciiLetterOrDigit(letter) ? letter : '_');
        if (char.IsAsciiDigit(text[0]))
            text.Insert(0, '_');
        return ReservedWords.Contains($"{text}") ? $"{text}_" : $"{text}";
    }

    private static string Unique(string name, HashSet<string> taken)
    {
        string unique = name;
        for (int number = 2; !taken.Add(unique); number++)
            unique = $"{name}_{number}";
        return unique;
    }

    private static ToolException Refused(Type type, string reason) => new(
        $"A queue cannot hold this: type={type}, {reason}. Use numbers, fixed buffers, inline arrays, and structs and enums of "
            + "these.");
}
