# SPDX-License-Identifier: Apache-2.0
"""What mkdocs calls while it builds the site: pages of other folders, links, the version."""

from __future__ import annotations

import pathlib
import re
import shutil

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from nbconvert import MarkdownExporter

from docs.generators.reference import REFERENCES, page, write_modules
from docs.site.home import first_screen
from docs.site.html import dead_links, loaded_from_elsewhere, raw_markup
from docs.site.outside import ROOT, documents, linked, with_tabs

_MODULES = ROOT / "build" / "reference"
_RECORD = re.compile(r"^\| \d+ \| \[[^]]+\]\((\d{4}-[^)]+)\)", re.MULTILINE)
_PRIVATE_PATH = re.compile(r' title="[^"]*\bsok_compat\.[^"]*"')  # shown over a type


def on_startup(command, dirty):
    """Writes what mkdocstrings reads."""
    shutil.rmtree(_MODULES, ignore_errors=True)
    write_modules(_MODULES)


def on_config(config):
    """Puts the version and the owner's repository into the header, records into the navigation."""
    project = (ROOT / "pyproject.toml").read_text()
    if source := re.search(r'^Source = "(.+)"$', project, re.MULTILINE):
        config.repo_url = source[1]
    config.site_name += " " + re.search(r'^version = "(.+)"$', project, re.MULTILINE)[1]
    decisions = next(item for item in config.nav if "Decisions" in item)["Decisions"]
    decisions += _records()
    return config


def _records():
    """{theme: [its records]} of decisions/index.md, as items of the navigation."""
    index = (ROOT / "docs" / "decisions" / "index.md").read_text()
    for section in index.split("\n## ")[1:]:
        theme = section.partition("\n")[0]
        yield {theme: [f"decisions/{name}" for name in _RECORD.findall(section)]}
    yield "decisions/tried-and-removed.md"
    yield "decisions/extension-points.md"


def on_files(files, config):
    """Adds documents of other folders, notebooks, and the pages of the reference."""
    for name, document in documents().items():
        if document.endswith(".ipynb"):
            for file in _of_notebook(config, name, ROOT / document):
                files.append(file)
        else:
            files.append(File.generated(config, name, abs_src_path=str(ROOT / document)))
    for name, reference in REFERENCES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=page(reference)))
    return files


def _of_notebook(config, name, notebook):
    """The page of a notebook, and the pictures that its cells have drawn."""
    folder = {"output_files_dir": notebook.stem, "unique_key": notebook.stem}
    text, resources = MarkdownExporter().from_filename(notebook, resources=folder)
    text = re.sub(r"^%%writefile (.+)$", r"# \1", text, flags=re.MULTILINE)
    text = re.sub(r"^%.*\n", "", text, flags=re.MULTILINE)  # what only a notebook needs
    text = re.sub(r"^!\[(svg|png)\]", "![drawn by the cell above]", text, flags=re.MULTILINE)
    yield File.generated(config, name, content=text)
    for path, content in resources["outputs"].items():
        yield File.generated(config, f"examples/{path}", content=content)


def on_page_markdown(markdown, page, config, files):
    """Leads links of documents to their pages; puts the first screen before the index."""
    name = page.file.src_uri
    if name.startswith("reference/"):
        return markdown
    markdown = with_tabs(linked(markdown, name))
    if name == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
        return first_screen() + markdown.replace("# Documents", "## Documents", 1)
    return markdown


def on_post_page(output, page, config):
    """Hides where the sources define the types of the reference."""
    is_reference = page.file.src_uri.startswith("reference/")
    return _PRIVATE_PATH.sub("", output) if is_reference else output


def on_post_build(config):
    """Fails where a page loads from another host, has dead links, or shows Markdown."""
    for path in pathlib.Path(config.site_dir).rglob("*.html"):
        html = path.read_text()
        for address in loaded_from_elsewhere(html):
            raise PluginError(f"{path.name} loads {address}: nothing comes from other hosts")
        for markup in raw_markup(html):
            raise PluginError(f"{path.name} shows {markup!r} as text")
        if path.name != "404.html":  # whose links are from the root
            for target in dead_links(path):
                raise PluginError(f"{path.name} leads to {target}, which the site lacks")
