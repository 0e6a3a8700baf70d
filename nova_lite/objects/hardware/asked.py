"""Extra specs of a flavor and properties of an image, read together: hw:NAME of the one is hw_NAME of the other."""
from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from nova_lite import exception
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta

_TRUE = ("true", "yes", "1", "on", "t", "y")


@dataclass(frozen=True)
class Asked:
    """Empty values count as not there."""

    flavor: Flavor
    image: ImageMeta | None = None

    def spec(self, name: str) -> str | None:
        """An extra spec of the flavor."""
        value = self.flavor.extra_specs.get(name)
        return None if value in (None, "") else str(value).strip()

    def property(self, name: str) -> str | None:
        """A property of the image."""
        value = self.image.properties.get(name) if self.image is not None else None
        return None if value in (None, "") else str(value).strip()

    def either(self, name: str) -> str | None:
        """hw:NAME, else hw_NAME: the flavor overrides the image."""
        return self.spec(f"hw:{name}") or self.property(f"hw_{name}")

    def agreed(self, name: str, prefix: str = "hw") -> str | None:
        """The same, but both may not say different things. Raises FlavorImageConflict."""
        spec, given = self.spec(f"{prefix}:{name}"), self.property(f"{prefix}_{name}")
        if spec is not None and given is not None and spec.lower() != given.lower():
            raise exception.FlavorImageConflict(reason=f"Flavor {self.flavor.name} asks for {prefix}:{name}={spec}, the image "
                                                       f"for {prefix}_{name}={given}")
        return spec if spec is not None else given

    def agreed_flag(self, name: str) -> bool | None:
        """A boolean on which flavor and image must agree; None: neither sets it. Raises FlavorImageConflict."""
        spec, given = self.spec(f"hw:{name}"), self.property(f"hw_{name}")
        if spec is not None and given is not None and is_true(spec) != is_true(given):
            raise exception.FlavorImageConflict(reason=f"Flavor {self.flavor.name} asks for hw:{name}={spec}, the image for "
                                                       f"hw_{name}={given}")
        value = spec if spec is not None else given
        return None if value is None else is_true(value)

    def number(self, name: str, least: int = 1) -> int | None:
        """The number that an extra spec (with a colon) or a property is. Raises InvalidHardware."""
        value = self.spec(name) if ":" in name else self.property(name)
        if value is None:
            return None
        if not value.isdecimal() or int(value) < least:
            raise exception.InvalidHardware(reason=f"{self.whose(name)} {name}={value} is not a number of at least {least}")
        return int(value)

    def whose(self, name: str) -> str:
        """For messages."""
        return f"flavor {self.flavor.name}:" if ":" in name else "Invalid image metadata. Error:"


def is_true(value: object) -> bool:
    """As Nova reads a yes or no."""
    return str(value).strip().lower() in _TRUE


def among(asked: Asked, name: str, value: str | None, allowed: Collection[str]) -> str | None:
    """``value`` in lower case. Raises InvalidHardware for a value that is not allowed."""
    if value is None or value.lower() in allowed:
        return None if value is None else value.lower()
    raise exception.InvalidHardware(reason=f"{asked.whose(name)} {name}={value} is not one of {', '.join(sorted(allowed))}")


def ranges(text: str) -> list[int]:
    """``0-3,^2,8`` as [0, 1, 3, 8]. Raises ValueError."""
    chosen, without = set[int](), set[int]()
    for part in text.split(","):
        target = without if part.strip().startswith("^") else chosen
        first, _, last = part.strip().removeprefix("^").partition("-")
        low, high = int(first), int(last or first)
        if low > high or high > 65535:
            raise ValueError(text)
        target.update(range(low, high + 1))
    return sorted(chosen - without)


def as_ranges(numbers: Collection[int]) -> str:
    """The inverse: [0, 1, 2, 8] as ``0-2,8``."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
