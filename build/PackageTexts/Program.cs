using MappedFileQueues.PackageTexts;

// Makes the texts of a package from those of the repository, because whoever has the package has no repository beside it:
//   readme SOURCE TARGET REPOSITORY-URL
//   docs   ASSEMBLY SOURCE TARGET REPOSITORY-URL
switch (args)
{
    case ["readme", string source, string target, string url]:
        string folder = RepositoryPaths.FolderOf(source);
        File.WriteAllText(target, Links.MakeAbsolute(Comments.Remove(File.ReadAllText(source)), folder, url));
        return 0;
    case ["docs", string assembly, string source, string target, string url]:
        return PublicDocumentation.Write(assembly, source, target, url);
    default:
        Console.Error.WriteLine("Usage: readme SOURCE TARGET URL | docs ASSEMBLY SOURCE TARGET URL");
        return 2;
}
