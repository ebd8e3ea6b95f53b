using System.Reflection;
using System.Reflection.Metadata;
using System.Reflection.PortableExecutable;
using System.Text;
using System.Text.RegularExpressions;
using System.Xml.Linq;
using MappedFileQueues.PackageCheck;

// PackageCheck FOLDER: looks into the packages of a folder, and prints what they promise and do not hold.
// The core's lib/ was an assembly for x64 Linux once, whatever machine the user had (CS8012 for all others), and so was the one
// of the tool, which did not start there; the XML file documented the inside; the README led into a repository that nobody had.
string[] usesInside =
[
    "MappedFileQueues.Files", "MappedFileQueues.Hosting", "MappedFileQueues.Logging", "MappedFileQueues.Packs",
    "MappedFileQueues.RabbitMQ", "MappedFileQueues.Testing",
];
List<string> faults = [];
HashSet<string> documented = [];
List<(string Member, string Reference)> references = [];
string[] files = Directory.GetFiles(args[0], "*.nupkg");
const int PackageCount = 12;
if (files.Length != PackageCount)
    faults.Add($"{files.Length} packages instead of {PackageCount}");
foreach (string file in files)
{
    using Package package = new(file);
    CheckMetadata(package);
    CheckAssemblies(package);
    CheckAnalyzers(package);
    CheckReadme(package);
    if (package.Id == "MappedFileQueues.Templates")
    {
        CheckTemplates(package);
        continue;
    }

    CheckSymbols(package, Path.ChangeExtension(file, ".snupkg"));
    if (package.Id != "MappedFileQueues.Tool")
        CheckDocumentation(package);
}

// A member of this library may be documented in the other package.
faults.AddRange(
    from reference in references
    where !documented.Contains(reference.Reference)
    select $"{reference.Member} refers to {reference.Reference}, which users do not see");
faults.ForEach(Console.Error.WriteLine);
Console.WriteLine($"{files.Length} packages, {documented.Count} documented members, {faults.Count} faults.");
return faults.Count == 0 ? 0 : 1;

void CheckMetadata(Package package)
{
    foreach (string name in new[] { "authors", "description", "license", "projectUrl", "tags" })
        Expect(package, package.Value(name).Length > 0, $"no {name}");
    Expect(package, package.Names.Contains(package.Value("icon")), "no icon");
    Expect(package, package.Names.Contains(package.Value("readme")), "no README");
    XElement? repository = package.Metadata.Elements().SingleOrDefault(element => element.Name.LocalName == "repository");
    Expect(package, IsAddress((string?)repository?.Attribute("url")), "no repository");
    Expect(package, ((string?)repository?.Attribute("commit"))?.Length == 40, "no commit");
    foreach (XElement dependency in package.Metadata.Descendants().Where(element => element.Name.LocalName == "dependency"))
    {
        string id = (string)dependency.Attribute("id")!;
        string version = (string)dependency.Attribute("version")!;
        Expect(
            package, !id.StartsWith("Microsoft.", StringComparison.Ordinal) || version == "10.0.0",
            $"{id} {version} would be an upgrade for applications that name an older version");
        bool isInside = id.StartsWith("MappedFileQueues", StringComparison.Ordinal) && usesInside.Contains(package.Id);
        Expect(
            package, !isInside || version[0] == '[',
            $"{id} {version} may be another version, whose inside is another");
    }
}

// What every machine gets is IL for every machine; code for one of them is below runtimes/, and is the same code.
void CheckAssemblies(Package package)
{
    Dictionary<string, Guid> versions = [];
    IEnumerable<string> names = package.Names.Where(name => name.EndsWith(".dll", StringComparison.Ordinal));
    foreach (string name in names.Order(StringComparer.Ordinal))
    {
        using PEReader assembly = package.Assembly(name);
        bool isNative = assembly.PEHeaders.CorHeader!.ManagedNativeHeaderDirectory.Size > 0
            || assembly.PEHeaders.CoffHeader.Machine != Machine.I386;
        bool isForOneMachine = name.StartsWith("runtimes/", StringComparison.Ordinal);
        Expect(package, isNative == isForOneMachine, $"{name} is {(isNative ? "code for one machine" : "IL")}");
        MetadataReader metadata = assembly.GetMetadataReader();
        Guid version = metadata.GetGuid(metadata.GetModuleDefinition().Mvid);
        if (isForOneMachine)
            Expect(package, versions["lib/net10.0/" + Path.GetFileName(name)] == version, $"{name} is another version of lib's");
        versions[name] = version;
    }

    if (package.Id == "MappedFileQueues" && !package.Names.Any(name => name.StartsWith("runtimes/", StringComparison.Ordinal)))
        Console.WriteLine($"{package.Name}: without precompiled code");
}

// Users of structs get the analyzers with the core, and no package for them.
void CheckAnalyzers(Package package)
{
    string[] expected = package.Id == "MappedFileQueues"
        ? ["analyzers/dotnet/cs/MappedFileQueues.Analyzers.dll", "analyzers/dotnet/cs/MappedFileQueues.CodeFixes.dll"]
        : [];
    IEnumerable<string> analyzers = package.Names.Where(name => name.StartsWith("analyzers/", StringComparison.Ordinal));
    Expect(package, analyzers.Order(StringComparer.Ordinal).SequenceEqual(expected), "other analyzers than those of the core");
    bool hasDependency = package.Metadata.Descendants().Any(element => element.Name.LocalName == "dependency");
    Expect(package, package.Id != "MappedFileQueues" || !hasDependency, "the core depends on another package");
}

// A template is a project with the packages that were made beside it.
void CheckTemplates(Package package)
{
    string[] projects = [.. package.Names.Where(name => name.EndsWith(".csproj", StringComparison.Ordinal))];
    Expect(package, projects.Length == 2, $"{projects.Length} templates instead of 2");
    foreach (string project in projects)
    {
        string folder = project[..project.LastIndexOf('/')];
        Expect(package, package.Names.Contains($"{folder}/.template.config/template.json"), $"{folder} is no template");
        string own = $"Include=\"MappedFileQueues.Hosting\" Version=\"{package.Value("version")}\"";
        Expect(package, package.Text(project).Contains(own, StringComparison.Ordinal), $"{project} refers to another version");
        bool isWhole = Regex.Count(package.Text(project), "<PackageReference ") == Regex.Count(package.Text(project), "Version=");
        Expect(package, isWhole, $"{project} has references without a version");
    }
}

void CheckReadme(Package package)
{
    string title = "# " + (package.Id == "MappedFileQueues.Tool" ? "mfq" : package.Id) + "\n";
    bool isOwn = package.Text("README.md").StartsWith(title, StringComparison.Ordinal);
    Expect(package, isOwn, "the README is that of another package");
    Expect(package, !package.Text("README.md").Contains("<!--", StringComparison.Ordinal), "README has comments for tools");
    foreach (Match link in Regex.Matches(package.Text("README.md"), @"\]\(([^)\s]+)\)"))
    {
        string target = link.Groups[1].Value;
        Expect(package, target[0] == '#' || IsAddress(target), $"README leads to {target}");
    }
}

void CheckSymbols(Package package, string path)
{
    if (!File.Exists(path))
    {
        Expect(package, false, "no symbols");
        return;
    }

    Guid sourceLink = new("CC110556-A091-4D38-9FEC-25AB9A351A6A");
    using Package symbols = new(path);
    string[] names = [.. symbols.Names.Where(name => name.EndsWith(".pdb", StringComparison.Ordinal))];
    Expect(package, names.Length > 0, "no symbols");
    foreach (string name in names)
    {
        using MetadataReaderProvider provider = symbols.Symbols(name);
        MetadataReader reader = provider.GetMetadataReader();
        IEnumerable<string> links =
            from handle in reader.CustomDebugInformation
            let information = reader.GetCustomDebugInformation(handle)
            where reader.GetGuid(information.Kind) == sourceLink
            select Encoding.UTF8.GetString(reader.GetBlobBytes(information.Value));
        bool hasAddress = links.Any(link => link.Contains("https://", StringComparison.Ordinal));
        Expect(package, hasAddress, $"{name} does not say where its sources are");
    }
}

void CheckDocumentation(Package package)
{
    string folder = "lib/net10.0/" + package.Id;
    HashSet<string> types = PublicTypes(package, folder + ".dll");
    foreach (XElement member in XDocument.Parse(package.Text(folder + ".xml")).Descendants("member"))
    {
        string name = (string)member.Attribute("name")!;
        documented.Add(name);
        string subject = name[2..].Split('(')[0];
        string owner = name[0] == 'T' ? subject : subject[..subject.LastIndexOf('.')];
        Expect(package, types.Contains(owner), $"{name} is documented, and users do not see it");
        references.AddRange(
            from reference in member.Descendants().Attributes("cref")
            where reference.Value.Contains("MappedFile", StringComparison.Ordinal)
            select (name, reference.Value));
        foreach (XAttribute address in member.Descendants().Attributes("href"))
            Expect(package, IsAddress(address.Value), $"{name} leads to {address.Value}");
        foreach (XText text in member.DescendantNodes().OfType<XText>().Where(text => text.Parent!.Name != "see"))
            Expect(package, !Regex.IsMatch(text.Value, @"(?<![\w/])docs/"), $"{name} names a page: {text.Value.Trim()}");
    }
}

static HashSet<string> PublicTypes(Package package, string name)
{
    using PEReader assembly = package.Assembly(name);
    MetadataReader reader = assembly.GetMetadataReader();
    return [.. reader.TypeDefinitions.Select(NameOf).OfType<string>()];

    string? NameOf(TypeDefinitionHandle handle)
    {
        TypeDefinition type = reader.GetTypeDefinition(handle);
        string own = reader.GetString(type.Name);
        return (type.Attributes & TypeAttributes.VisibilityMask) switch
        {
            TypeAttributes.Public => type.Namespace.IsNil ? own : $"{reader.GetString(type.Namespace)}.{own}",
            TypeAttributes.NestedPublic or TypeAttributes.NestedFamily when NameOf(type.GetDeclaringType()) is { } outer =>
                $"{outer}.{own}",
            _ => null,
        };
    }
}

static bool IsAddress(string? text) => Uri.TryCreate(text, UriKind.Absolute, out Uri? address) && address.Scheme == "https";

void Expect(Package package, bool holds, string otherwise)
{
    if (!holds)
        faults.Add($"{package.Name}: {otherwise}");
}
