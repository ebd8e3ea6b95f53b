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
    /// <summary>The types, with their sizes in bytes; `utf8[N]` and `hex[N]` come in addition.</summary>
    private static readonly Dictionary<string, int> s_sizes = new(StringComparer.Ordinal)
    {
        ["i8"] = 1,
        ["u8"] = 1,
        ["i16"] = 2,
        ["u16"] = 2,
        ["i32"] = 4,
        ["u32"] = 4,
        ["i64"] = 8,
        ["u64"] = 8,
        ["f32"] = 4,
        ["f64"] = 8,
        ["bool"] = 1,
        ["char"] = 2,
        ["guid"] = 16,
        ["ticks"] = 8,
        ["unixms"] = 8,
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
    public static string TypeNames => string.Join(' ', s_sizes.Keys) + " utf8[N] hex[N]";

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
            string text = value switch
            {
                bool flag => flag ? "true" : "false",
                string words when field.Type is "utf8" or "char" => $"\"{JsonEncodedText.Encode(words)}\"",
                DateTimeOffset time => time.ToString("O", CultureInfo.InvariantCulture),
                _ => Convert.ToString(value, CultureInfo.InvariantCulture)!,
            };
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
            switch (Read(field, message))
            {
                case bool flag:
                    json.WriteBoolean(field.Name, flag);
                    break;
                case double number when !double.IsFinite(number):
                    json.WriteString(field.Name, number.ToString(CultureInfo.InvariantCulture));
                    break;
                case double number:
                    json.WriteNumber(field.Name, number);
                    break;
                case float number when !float.IsFinite(number):
                    json.WriteString(field.Name, number.ToString(CultureInfo.InvariantCulture));
                    break;
                case float number:
                    json.WriteNumber(field.Name, number);
                    break;
                case long number:
                    json.WriteNumber(field.Name, number);
                    break;
                case ulong number:
                    json.WriteNumber(field.Name, number);
                    break;
                case DateTimeOffset time:
                    json.WriteString(field.Name, time);
                    break;
                case var other:
                    json.WriteString(field.Name, other.ToString());
                    break;
            }
        }

        json.WriteEndObject();
    }

    private static (int Length, int Alignment) MeasureType(ref string type)
    {
        if (s_sizes.TryGetValue(type, out int size))
            return (size, type == "guid" ? 4 : size);
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
        return field.Type switch
        {
            "i8" => (long)(sbyte)bytes[0],
            "u8" => (ulong)bytes[0],
            "i16" => (long)MemoryMarshal.Read<short>(bytes),
            "u16" => (ulong)MemoryMarshal.Read<ushort>(bytes),
            "i32" => (long)MemoryMarshal.Read<int>(bytes),
            "u32" => (ulong)MemoryMarshal.Read<uint>(bytes),
            "i64" => MemoryMarshal.Read<long>(bytes),
            "u64" => MemoryMarshal.Read<ulong>(bytes),
            "f32" => MemoryMarshal.Read<float>(bytes),
            "f64" => MemoryMarshal.Read<double>(bytes),
            "bool" => bytes[0] != 0,
            "char" => MemoryMarshal.Read<char>(bytes).ToString(),
            "guid" => MemoryMarshal.Read<Guid>(bytes).ToString(),
            "ticks" => ReadTicks(bytes),
            "unixms" => ReadUnixMilliseconds(bytes),
            "utf8" => Encoding.UTF8.GetString(bytes).TrimEnd('\0'),
            _ => Convert.ToHexStringLower(bytes),
        };
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
