using Xunit.Sdk;

namespace MappedFileQueues.Tests.Support;

/// <summary>
/// For what a busy machine can spoil once: a process that gets no time for seconds looks like the silence that a test must not
/// see. A defect spoils each try.
/// </summary>
internal static class Tries
{
    private const int Max = 3;

    /// <summary>Returns after the first try without a failed assertion; fails as the last try does.</summary>
    /// <param name="tryAsync">Makes whatever the try before may have spoiled anew.</param>
    public static async Task OneSucceedsAsync(Func<Task> tryAsync)
    {
        for (int number = 1; ; number++)
        {
            try
            {
                await tryAsync();
                return;
            }
            catch (XunitException) when (number < Max)
            {
                // The next one decides.
            }
        }
    }
}
