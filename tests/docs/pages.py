"""The pages of the documentation, cut into sections and fenced blocks."""

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)\s*$")
HEADING = re.compile(r"^#{1,3} (.+)$")


@dataclass
class Section:
    """What stands under one heading: the blocks by their language, in order."""

    page: str
    heading: str
    blocks: list[tuple[str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.page} {self.heading}"

    def of(self, language: str) -> list[str]:
        """The blocks in one language."""
        return [text for found, text in self.blocks if found == language]

    @property
    def program(self) -> str:
        """All Python of the section, which is one program."""
        return "\n\n".join(self.of("python"))

    @property
    def output(self) -> str:
        """What the program prints, as the page says."""
        return "".join(self.of("text"))

    @property
    def session(self) -> list[str]:
        """What a reader types into several terminals; the first lines may be programs that stay."""
        lines = [line for text in self.of("console") for line in text.splitlines() if line.startswith("$ ")]
        return [line[2:].partition("  #")[0].rstrip() for line in lines]

    @property
    def commands(self) -> list[str]:
        """The lines that a reader types into a shell."""
        lines = [line.partition("  #")[0].rstrip() for text in self.of("sh") for line in text.splitlines()]
        return [line for line in lines if line and not line.startswith("#")]


def sections(page: str) -> list[Section]:
    """The sections of a page that have blocks."""
    found = [Section(page, "top")]
    language: str | None = None
    lines: list[str] = []
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        fence, heading = FENCE.match(line), HEADING.match(line)
        if language is not None and fence:
            found[-1].blocks.append((language, "".join(f"{text}\n" for text in lines)))
            language = None
        elif language is not None:
            lines.append(line)
        elif fence:
            language, lines = fence[1], []
        elif heading:
            found.append(Section(page, heading[1]))
    return [section for section in found if section.blocks]


def pages() -> list[Path]:
    """Every page that users or contributors read."""
    return [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
