using System.Buffers;
using System.Globalization;
using System.Runtime.InteropServices;
using System.Text;
using System.Text.Json;

namespace MappedFileQueues.Tool.Consume;

/// <summary>
/// The fields of a struct, by a description such as `id:i32,price:f64,name:utf8[16]`. Fields follow each other as a C# compiler
/// lays out a struct: each at a multiple of its size. `@N` after a field places it at that byte; `_:utf8[N]` and other fields
/// named `_` are skipped.
/// </summary>
internal sealed class StructFields
{
    /// <summary>The types, with their sizes in bytes and their values; `utf8[N]` and `hex[N]` come in addition.</summary>
    private static readonly Dictionary<string, (int Size, Func<ReadOnlySpan<byte>, object> Read)> s_types =
        new(StringComparer.Ordinal)
        {
            ["i8"] = (1, bytes => (long)(sbyte)bytes[0]),
            ["u8"] = (1, bytes => (ulong)bytes[0]),
            ["i16"] = (2, bytes => (long)MemoryMarshal.Read<short>(bytes)),
            ["u16"] = (2, bytes => (ulong)MemoryMarshal.Read<ushort>(bytes)),
            ["i32"] = (4, bytes => (long)MemoryMarshal.Read<int>(bytes)),
            ["u32"] = (4, bytes => (ulong)MemoryMarshal.Read<uint>(bytes)),
            ["i64"] = (8, bytes => MemoryMarshal.Read<long>(bytes)),
            ["u64"] = (8, bytes => MemoryMarshal.Read<ulong>(bytes)),
            ["f32"] = (4, bytes => MemoryMarshal.Read<float>(bytes)),
            ["f64"] = (8, bytes => MemoryMarshal.Read<double>(bytes)),
            ["bool"] = (1, bytes => bytes[0] != 0),
            ["char"] = (2, bytes => MemoryMarshal.Read<char>(bytes).ToString()),
            ["guid"] = (16, bytes => MemoryMarshal.Read<Guid>(bytes).ToString()),
            ["ticks"] = (8, ReadTicks),
            ["unixms"] = (8, ReadUnixMilliseconds),
        };

    private readonly List<Field> _fields;

    private StructFields(List<Field> fields)
    {
        _fields = fields;
        Length = fields.Max(field => field.Position + field.Length);
    }

    /// <summary>How many bytes of a message the fields cover.</summary>
    public int Length { get; }

    /// <summary>What a description may hold, for help and errors.</summary>
    public static string TypeNames => string.Join(' ', s_types.Keys) + " utf8[N] hex[N]";

    /// <summary>Reads a description; null with the reason when it is wrong.</summary>
    public static StructFields? TryParse(string text, out string error)
    {
        List<Field> fields = [];
        int position = 0;
        foreach (string part in text.Split(',', StringSplitOptions.TrimEntries))
        {
            string[] nameAndType = part.Split(':', 2, StringSplitOptions.TrimEntries);
            string[] typeAndPlace = nameAndType[^1].Split('@', 2, StringSplitOptions.TrimEntries);
            string type = typeAndPlace[0];
            (int length, int alignment) = MeasureType(ref type);
            if (nameAndType.Length < 2 || nameAndType[0].Length == 0 || length == 0)
            {
                error = $"'{part}' is no field: write NAME:TYPE, with one of the types {TypeNames}";
                return null;
            }

            position = (position + alignment - 1) / alignment * alignment;
            if (typeAndPlace.Length == 2
                && !(int.TryParse(typeAndPlace[1], NumberStyles.None, CultureInfo.InvariantCulture, out position)
                    && position <= 1 << 20))
            {
                error = $"'{part}' has no place: write NAME:TYPE@BYTES";
                return null;
            }

            fields.Add(new Field(nameAndType[0], type, position, length));
            position += length;
        }

        error = "";
        return new StructFields(fields);
    }

    /// <summary>Writes name=value for each field, with spaces between.</summary>
    public void WriteText(ReadOnlySpan<byte> message, IBufferWriter<byte> output)
    {
        StringBuilder line = new();
        foreach (Field field in _fields.Where(field => field.Name != "_"))
        {
            object value = Read(field, message);
            string text = field.Type is "utf8" or "char"
                ? $"\"{JsonEncodedText.Encode((string)value)}\""
                : TextOf(value);
            line.Append(line.Length > 0 ? " " : "").Append(field.Name).Append('=').Append(text);
        }

        output.Write(Encoding.UTF8.GetBytes(line.ToString()));
    }

    /// <summary>Writes the fields as an object named `fields`.</summary>
    public void WriteJson(ReadOnlySpan<byte> message, Utf8JsonWriter json)
    {
        json.WriteStartObject("fields"u8);
        foreach (Field field in _fields.Where(field => field.Name != "_"))
        {
            json.WritePropertyName(field.Name);
            object value = Read(field, message);
            // JSON has no number that is not finite.
            bool isString = value is string or double.NaN or double.PositiveInfinity or double.NegativeInfinity
                or float.NaN or float.PositiveInfinity or float.NegativeInfinity;
            if (value is DateTimeOffset time)
                json.WriteStringValue(time);
            else if (isString)
                json.WriteStringValue(TextOf(value));
            else
                json.WriteRawValue(TextOf(value));
        }

        json.WriteEndObject();
    }

    /// <summary>A value as text; numbers and booleans as JSON has them.</summary>
    private static string TextOf(object value) => value switch
    {
        bool flag => flag ? "true" : "false",
        DateTimeOffset time => $"{time:O}",
        _ => $"{value}",
    };

    private static (int Length, int Alignment) MeasureType(ref string type)
    {
        if (s_types.TryGetValue(type, out (int Size, Func<ReadOnlySpan<byte>, object> Read) known))
            return (known.Size, type == "guid" ? 4 : known.Size);
        int open = type.IndexOf('[', StringComparison.Ordinal);
        bool isArray = open > 0 && type[^1] == ']' && type[..open] is "utf8" or "hex";
        if (!isArray || !int.TryParse(type[(open + 1)..^1], NumberStyles.None, CultureInfo.InvariantCulture, out int length)
            || length is < 1 or > 1 << 20)
            return (0, 1);
        type = type[..open];
        return (length, 1);
    }

    private static object Read(Field field, ReadOnlySpan<byte> message)
    {
        ReadOnlySpan<byte> bytes = message.Slice(field.Position, field.Length);
        return field.Type == "utf8" ? Encoding.UTF8.GetString(bytes).TrimEnd('\0')
            : field.Type == "hex" ? Convert.ToHexStringLower(bytes)
            : s_types[field.Type].Read(bytes);
    }

    /// <summary>A <see cref="DateTime"/> in UTC; the number where it is none.</summary>
    private static object ReadTicks(ReadOnlySpan<byte> bytes)
    {
        // The two top bits of a DateTime say which kind it is.
        long ticks = MemoryMarshal.Read<long>(bytes) & 0x3FFF_FFFF_FFFF_FFFF;
        return ticks <= DateTime.MaxValue.Ticks ? new DateTimeOffset(ticks, TimeSpan.Zero) : ticks;
    }

    private static object ReadUnixMilliseconds(ReadOnlySpan<byte> bytes)
    {
        long time = MemoryMarshal.Read<long>(bytes);
        bool isTime = time >= DateTimeOffset.MinValue.ToUnixTimeMilliseconds()
            && time <= DateTimeOffset.MaxValue.ToUnixTimeMilliseconds();
        return isTime ? DateTimeOffset.FromUnixTimeMilliseconds(time) : time;
    }

    private sealed record Field(string Name, string Type, int Position, int Length);
}
