using MappedFileQueues.RabbitMQ;
using MappedFileQueues.RabbitMQ.Connections;
using RabbitMQ.Client;

namespace MappedFileQueues.Tests.Bridge.Connections;

/// <summary>What the client is told of an address, and what nobody else is.</summary>
public sealed class BrokerAddressesTests
{
    /// <summary>
    /// The client took a second colon for a mistake: the bridge stopped, and its error and its log showed user and password.
    /// </summary>
    [Theory]
    [InlineData("amqp://user:pa:ss:word@host", "user", "pa:ss:word")]
    [InlineData("amqp://user:pa%3Ass%40%2F%3F%23%2C+%25@host:5/v%20h", "user", "pa:ss@/?#,+%")]
    [InlineData("amqp://us%3Aer:p%C3%A4@[::1]/%2F", "us:er", "pä")]
    [InlineData("amqps://user:@host", "user", "")]
    [InlineData("amqps://user@host", "user", "of the options")]
    [InlineData("amqps://host", "name of the options", "of the options")]
    public void CreateFactory_AccountInTheAddress_IsTakenApartAtTheFirstColonAndDecoded(
        string address, string user, string password)
    {
        BrokerAddresses addresses = new(new StreamForwarderOptions
        {
            Brokers = address,
            UserName = "name of the options",
            Password = "of the options",
        });

        ConnectionFactory factory = addresses.CreateFactory();

        Assert.Equal((user, password), (factory.UserName, factory.Password));
        Assert.DoesNotContain("@", $"{addresses.Shown} {factory.Endpoint}", StringComparison.Ordinal);
    }

    [Fact]
    public void CreateFactory_HostPortAndVirtualHost_AreThoseOfTheAddress()
    {
        ConnectionFactory factory = Create("amqps://u:p@node.example:5999/a%20b");

        Assert.Equal(("node.example", 5999, "a b"), (factory.HostName, factory.Port, factory.VirtualHost));
        Assert.Equal((true, "node.example"), (factory.Ssl.Enabled, factory.Ssl.ServerName));
        ConnectionFactory other = Create("amqp://u:p@node.example/%2F");
        Assert.Equal((5672, "/", false), (other.Endpoint.Port, other.VirtualHost, other.Ssl.Enabled));
    }

    /// <summary>Whatever is wrong with an address, no part of it is in the error: any of them may be of a password.</summary>
    [Theory]
    [InlineData("amqp://user:12/secret@host")]
    [InlineData("amqp://user:12?secret@host")]
    [InlineData("amqp://user:12#secret@host")]
    [InlineData("amqp://user:12,secret@host")]
    [InlineData("amqp://user:12\\secret@host")]
    [InlineData("amqp://user:p@secret@host")]
    [InlineData("amqp:user:secret@host")]
    [InlineData("amqp:secret")]
    [InlineData("amqp:/secret")]
    [InlineData("amqp://user:secret@")]
    [InlineData("amqp://user:secret@host:70000")]
    [InlineData("amqp://user:secret@ho st")]
    [InlineData("http://user:secret@host")]
    [InlineData("user:secret@host")]
    public void New_AddressIsWrong_ShowsNothingOfIt(string address)
    {
        ArgumentException error = Assert.Throws<ArgumentException>(
            () => new BrokerAddresses(new StreamForwarderOptions { Brokers = address }));

        Assert.DoesNotContain("secret", error.ToString(), StringComparison.Ordinal);
    }

    private static ConnectionFactory Create(string address) =>
        new BrokerAddresses(new StreamForwarderOptions { Brokers = address }).CreateFactory();
}
