using System.Diagnostics;

namespace MappedFileQueues.Tests.Interop;

/// <summary>The Python package and its test program.</summary>
internal static class PythonPackage
{
    public static string Folder => Repository.PathOf("interop/python");

    /// <summary>The command of the test program, without arguments.</summary>
    public static string[] Program => ["python3", Path.Combine(Folder, "test_vectors.py")];

    /// <summary>Nothing is left in the checkout.</summary>
    public static Dictionary<string, string> Variables => new() { ["PYTHONDONTWRITEBYTECODE"] = "1" };

    /// <summary>The same, and the package finds the C library.</summary>
    public static Dictionary<string, string> VariablesWithLibrary =>
        new(Variables) { ["LD_LIBRARY_PATH"] = CLibrary.SharedFolder };

    /// <summary>Starts Python with the package and the C library.</summary>
    public static ChildProcess Start(params IEnumerable<string> arguments)
    {
        Vectors.SkipWithoutPython();
        return ChildProcess.Start(
            new ProcessStartInfo("python3", arguments) { WorkingDirectory = Folder }, VariablesWithLibrary);
    }
}
