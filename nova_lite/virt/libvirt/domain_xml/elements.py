"""What lxml's builder has no word for."""
from __future__ import annotations

from lxml import etree


def child(tag: str, text: str) -> etree._Element:
    """An element whose name is only known at run time."""
    made = etree.Element(tag)
    made.text = text
    return made
