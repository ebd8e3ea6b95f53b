namespace MappedFileQueues.Files.Names;

/// <summary>
/// Identifies a file among all that one file system has and had: inodes are reused, creation times hardly ever coincide.
/// </summary>
/// <param name="Inode">The inode.</param>
/// <param name="Birth">Nanoseconds since 1970; 0 where the file system does not know.</param>
internal readonly record struct FileMark(ulong Inode, long Birth);
