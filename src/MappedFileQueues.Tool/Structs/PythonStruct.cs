using System.Text;

namespace MappedFileQueues.Tool.Structs;

/// <summary>Writes a struct as a class of ctypes, and as a dictionary of which `numpy.dtype` makes a type.</summary>
internal static class PythonStruct
{
    public static string Write(StructShape shape)
    {
        StringBuilder text = new("import ctypes\n");
        foreach (StructShape each in shape.WithInner())
        {
            WriteClass(text, each);
            WriteNumpy(text, each);
        }

        return text.ToString();
    }

    private static void WriteClass(StringBuilder text, StructShape shape)
    {
        text.Append($"\n\nclass {shape.Name}(ctypes.LittleEndian{(shape.IsUnion ? "Union" : "Structure")}):\n");
        text.Append($"    \"\"\"{Plain(shape.Source)}, {shape.Size} bytes.\"\"\"\n");
        if (shape.IsUnion)
        {
            foreach (FieldShape field in shape.Fields)
            {
                text.Append($"    class Of_{field.Name}(ctypes.LittleEndianStructure):\n");
                text.Append("        _pack_ = 1\n        _layout_ = \"ms\"\n");
                string before = field.Offset > 0 ? $"(\"before_{field.Name}\", ctypes.c_uint8 * {field.Offset}), " : "";
                text.Append($"        _fields_ = [{before}(\"{field.Name}\", {TypeOf(field)})]\n");
            }

            text.Append($"    _anonymous_ = [{string.Join(", ", shape.Fields.Select(field => $"\"of_{field.Name}\""))}]\n");
            text.Append($"    _fields_ = [(\"bytes_\", ctypes.c_uint8 * {shape.Size})");
            foreach (FieldShape field in shape.Fields)
                text.Append($", (\"of_{field.Name}\", Of_{field.Name})");
            text.Append("]\n");
        }
        else
        {
            if (shape.IsPacked)
                text.Append("    _pack_ = 1\n    _layout_ = \"ms\"\n");
            text.Append("    _fields_ = [\n");
            foreach (FieldShape field in shape.WithPadding())
                text.Append($"        (\"{field.Name}\", {TypeOf(field)}),{(field.Note is { } note ? $"  # {note}" : "")}\n");
            text.Append("    ]\n");
        }

        text.Append($"\n\nassert ctypes.sizeof({shape.Name}) == {shape.Size}\n");
        foreach (FieldShape field in shape.Fields)
            text.Append($"assert {shape.Name}.{field.Name}.offset == {field.Offset}\n");
    }

    private static void WriteNumpy(StringBuilder text, StructShape shape)
    {
        text.Append($"\n{shape.Name}_dtype = {{\n    \"names\": [{List(field => $"\"{field.Name}\"")}],\n");
        text.Append($"    \"formats\": [{List(NumpyOf)}],\n    \"offsets\": [{List(field => $"{field.Offset}")}],\n");
        text.Append($"    \"itemsize\": {shape.Size},\n}}\n");

        string List(Func<FieldShape, string> write) => string.Join(", ", shape.Fields.Select(write));
    }

    private static string TypeOf(FieldShape field) => field.Counts.Reverse().Aggregate(
        field.Kind is { } kind ? $"ctypes.{kind.Python}" : field.Struct!.Name,
        (type, count) => type.Contains('*', StringComparison.Ordinal) ? $"({type}) * {count}" : $"{type} * {count}");

    private static string NumpyOf(FieldShape field)
    {
        string type = field.Kind is { } kind ? $"\"{kind.Numpy}\"" : $"{field.Struct!.Name}_dtype";
        return field.Counts.Count == 0 ? type : $"({type}, ({string.Concat(field.Counts.Select(count => $"{count}, "))}))";
    }

    private static string Plain(string text) => text.Replace("\\", "/", StringComparison.Ordinal).Replace('"', '\'');
}
