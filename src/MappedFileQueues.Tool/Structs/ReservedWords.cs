namespace MappedFileQueues.Tool.Structs;

/// <summary>Words that name no field in C, in C++ or in Python.</summary>
internal static class ReservedWords
{
    private const string Words =
        "_Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary _Noreturn _Static_assert _Thread_local "
        + "alignas alignof and and_eq asm assert async auto await bitand bitor bool break case catch char class "
        + "compl concept const const_cast consteval constexpr constinit continue decltype def default del "
        + "delete do double dynamic_cast elif else enum except explicit export extern False finally float for "
        + "friend from global goto if import in inline int is lambda long mutable namespace new noexcept None "
        + "nonlocal not not_eq nullptr operator or or_eq pass private protected public raise register "
        + "reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast "
        + "struct switch template this thread_local throw True try typedef typeid typename typeof union "
        + "unsigned using virtual void volatile wchar_t while with xor xor_eq yield";

    private static readonly HashSet<string> s_words = new(Words.Split(' '), StringComparer.Ordinal);

    public static bool Contains(string name) => s_words.Contains(name);
}
