using System.Text;

namespace MappedFileQueues.Tool.Structs;

/// <summary>Writes a struct as C11 and C++17 have it, with assertions that a compiler checks.</summary>
internal static class CStruct
{
    public static string Write(StructShape shape)
    {
        StringBuilder text = new();
        text.Append("#include <stddef.h>\n#include <stdint.h>\n#ifdef __cplusplus\n#define MFQ_ASSERT static_assert\n");
        text.Append("#else\n#define MFQ_ASSERT _Static_assert\n#endif\n");
        foreach (StructShape each in shape.WithInner())
            WriteOne(text, each);
        text.Append("#undef MFQ_ASSERT\n");
        return text.ToString();
    }

    private static void WriteOne(StringBuilder text, StructShape shape)
    {
        string keyword = shape.IsUnion ? "union" : "struct";
        text.Append($"\n/* {shape.Source.Replace("*/", "", StringComparison.Ordinal)}, {shape.Size} bytes. */\n");
        if (shape.IsPacked)
            text.Append("#pragma pack(push, 1)\n");
        text.Append($"typedef {keyword} {shape.Name} {{\n");
        if (shape.IsUnion)
            WriteUnion(text, shape);
        else
        {
            foreach (FieldShape field in shape.WithPadding())
                text.Append($"    {Declaration(field)}{Note(field)}\n");
        }

        text.Append($"}} {shape.Name};\n");
        if (shape.IsPacked)
            text.Append("#pragma pack(pop)\n");
        text.Append($"MFQ_ASSERT(sizeof({shape.Name}) == {shape.Size}, \"size of {shape.Name}\");\n");
        foreach (FieldShape field in shape.Fields)
        {
            string place = $"{shape.Name}, {field.Name}";
            text.Append($"MFQ_ASSERT(offsetof({place}) == {field.Offset}, \"offset of {shape.Name}.{field.Name}\");\n");
        }
    }

    /// <summary>Each field in a struct of its own, after what is before it; the bytes give the size.</summary>
    private static void WriteUnion(StringBuilder text, StructShape shape)
    {
        text.Append($"    uint8_t bytes_[{shape.Size}];\n");
        foreach (FieldShape field in shape.Fields)
        {
            string before = field.Offset > 0 ? $"uint8_t before_{field.Name}[{field.Offset}]; " : "";
            text.Append($"    struct {{ {before}{Declaration(field)} }};{Note(field)}\n");
        }
    }

    private static string Declaration(FieldShape field) =>
        $"{field.Kind?.C ?? field.Struct!.Name} {field.Name}{string.Concat(field.Counts.Select(count => $"[{count}]"))};";

    private static string Note(FieldShape field) => field.Note is { } note ? $" /* {note} */" : "";
}
