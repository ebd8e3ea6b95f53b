using System.IO.Compression;
using System.Reflection.Metadata;
using System.Reflection.PortableExecutable;
using System.Text;
using System.Xml.Linq;

namespace MappedFileQueues.PackageCheck;

/// <summary>An opened package.</summary>
internal sealed class Package : IDisposable
{
    private readonly ZipArchive _archive;

    public Package(string path)
    {
        Name = Path.GetFileName(path);
        _archive = ZipFile.OpenRead(path);
        Names = [.. _archive.Entries.Select(entry => entry.FullName)];
        XElement nuspec = XDocument.Parse(Text(Names.Single(name => name.EndsWith(".nuspec", StringComparison.Ordinal)))).Root!;
        Metadata = nuspec.Elements().Single();
    }

    public string Name { get; }

    public IReadOnlyList<string> Names { get; }

    /// <summary>The nuspec's metadata.</summary>
    public XElement Metadata { get; }

    public string Id => Value("id");

    public string Value(string name) =>
        Metadata.Elements().FirstOrDefault(element => element.Name.LocalName == name)?.Value ?? "";

    public byte[] Bytes(string name)
    {
        using Stream stream = _archive.GetEntry(name)!.Open();
        using MemoryStream bytes = new();
        stream.CopyTo(bytes);
        return bytes.ToArray();
    }

    public string Text(string name) => Encoding.UTF8.GetString(Bytes(name)).TrimStart('\ufeff');

    public PEReader Assembly(string name) => new([.. Bytes(name)]);

    public MetadataReaderProvider Symbols(string name) => MetadataReaderProvider.FromPortablePdbImage([.. Bytes(name)]);

    public void Dispose() => _archive.Dispose();
}
