using Microsoft.CodeAnalysis;

namespace MappedFileQueues.Analyzers;

/// <summary>
/// What may be wrong with a struct as a message. An error is what the compiler or the constructor of the queue refuses; a warning
/// is a struct whose bytes another process may read differently; the rest works, and is good to know.
/// </summary>
internal static class MessageRules
{
    private const string Category = "MappedFileQueues";

    public static readonly DiagnosticDescriptor Padding = new(
        "MFQ0001", "Padding between the fields of a message",
        "'{0}' has {1} bytes of padding {2}, and they are stored as they are",
        Category, DiagnosticSeverity.Info, isEnabledByDefault: true,
        "Padding takes room in each message, and holds whatever was in memory. Fields in the order of their size need the least. "
        + "A struct that changes begins in a new store.");

    public static readonly DiagnosticDescriptor Address = new(
        "MFQ0002", "Pointer or native integer in a message",
        "{0} is {1}, which is valid in one process only: the queue refuses it",
        Category, DiagnosticSeverity.Error, isEnabledByDefault: true,
        "An address means nothing to another process, and its size differs between machines. Use long, or an offset.");

    public static readonly DiagnosticDescriptor Reference = new(
        "MFQ0003", "Reference in a message",
        "{0} is {1}, a reference: it cannot be a message or a part of one",
        Category, DiagnosticSeverity.Error, isEnabledByDefault: true,
        "A message is copied byte by byte. Use a MappedFileQueue without a type and a serializer, or an inline array.");

    public static readonly DiagnosticDescriptor AutoLayout = new(
        "MFQ0004", "Layout that the runtime chooses",
        "{0} is {1}, whose fields are placed by the runtime: another version may place them elsewhere",
        Category, DiagnosticSeverity.Warning, isEnabledByDefault: true,
        "A store refuses a struct whose fields are elsewhere. Tuples and DateTimeOffset have such a layout too. "
        + "Declare a struct with sequential or explicit layout.");

    public static readonly DiagnosticDescriptor Boolean = new(
        "MFQ0005", "bool in a message",
        "{0} is a bool: a byte that is neither 0 nor 1 makes it neither true nor false",
        Category, DiagnosticSeverity.Info, isEnabledByDefault: true,
        "Programs in other languages may write such a byte. Use byte, or an enum of byte, where they do.");

    public static readonly DiagnosticDescriptor Character = new(
        "MFQ0006", "char in a message",
        "{0} is a char: two bytes of UTF-16, and not always a whole character",
        Category, DiagnosticSeverity.Info, isEnabledByDefault: true,
        "Other languages have a char of one or four bytes. Use ushort, or bytes of UTF-8, where they read the message.");

    public static readonly DiagnosticDescriptor Decimal = new(
        "MFQ0007", "decimal in a message",
        "{0} is a decimal, whose 16 bytes only .NET can read",
        Category, DiagnosticSeverity.Info, isEnabledByDefault: true,
        "Use a long in the smallest unit where programs in other languages read the message.");

    public static readonly DiagnosticDescriptor Date = new(
        "MFQ0008", "DateTime in a message",
        "{0} is a DateTime: its bytes are private to .NET, and a local time means another one elsewhere",
        Category, DiagnosticSeverity.Warning, isEnabledByDefault: true,
        "Use a long: the ticks of a UTC time, or the milliseconds since 1970.");
}
