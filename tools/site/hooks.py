"""What MkDocs does besides: the first page is README, and mermaid is refused."""

import posixpath
import re
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)(#[^)]*)?\)")


def _link(match):
    """A link of README as it is on the site. What is in the tree only is named, not linked."""
    text, target, anchor = match[1], match[2], match[3] or ""
    if "://" in target:
        return match[0]
    if not (ROOT / target).exists():
        raise PluginError(f"README.md links to '{target}', which does not exist")
    if target.startswith("docs/"):
        return f"[{text}]({posixpath.relpath(target, 'docs')}{anchor})"
    return text if target in text else f"{text} (`{target}`)"


def on_files(files, config):
    files.append(File.generated(config, "index.md", content=LINK.sub(_link, (ROOT / "README.md").read_text())))
    return files


def on_page_markdown(markdown, page, config, files):
    if "```mermaid" in markdown:
        raise PluginError(f"{page.file.src_uri}: mermaid needs a script from elsewhere; commit the picture as SVG")
    return markdown
