"""Additions to MkDocs: the first page is README, the API reference is made of the sources, and mermaid is refused."""

import posixpath
import re
import sys
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/site"))

import api  # noqa: E402

REFERENCE = "API"  # the section of the navigation that gets the reference's pages
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


def on_config(config):
    for section in config.nav:
        if REFERENCE in section:
            section[REFERENCE] = [{title: path} for path, title in api.titles()]
    return config


def on_files(files, config):
    files.append(File.generated(config, "index.md", content=LINK.sub(_link, (ROOT / "README.md").read_text())))
    for path, _, text in api.pages():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    if "```mermaid" in markdown:
        raise PluginError(f"{page.file.src_uri}: mermaid needs a script from elsewhere; commit the picture as SVG")
    return markdown
