using System.ComponentModel.DataAnnotations;
using System.Globalization;

namespace MappedFileQueues.Hosting.Queues;

/// <summary>The limits of a time. The framework's own attribute takes them as text of any type, by reflection.</summary>
[AttributeUsage(AttributeTargets.Property)]
internal sealed class TimeRangeAttribute(string least, string most) : ValidationAttribute
{
    protected override ValidationResult? IsValid(object? value, ValidationContext validationContext)
    {
        TimeSpan min = TimeSpan.Parse(least, CultureInfo.InvariantCulture);
        TimeSpan max = TimeSpan.Parse(most, CultureInfo.InvariantCulture);
        return value is null || (value is TimeSpan time && time >= min && time <= max)
            ? ValidationResult.Success
            : new ValidationResult($"The field {validationContext.DisplayName} must be from {min} to {max}: {value}.");
    }
}
