"""What MkDocs does besides: the first page is README, and each page of the reference is taken from build/site_reference."""

import posixpath
import re
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "build/site_reference"
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
    for page in sorted(REFERENCE.glob("*.md")):
        files.append(File.generated(config, f"reference/{page.name}", abs_src_path=str(page)))
    return files


def on_config(config):
    pages = [{p.stem: f"reference/{p.name}"} for p in sorted(REFERENCE.glob("*.md"))]
    for entry in config.nav:
        if "Reference" in entry:
            entry["Reference"] = [*entry["Reference"], {"Python": pages}] if pages else entry["Reference"]
    return config


def on_page_markdown(markdown, page, config, files):
    if "```mermaid" in markdown:
        raise PluginError(f"{page.file.src_uri}: mermaid needs a script from elsewhere; commit the picture as SVG")
    return markdown
