"""Links from pages to files of the repository that are no pages: shown as a path, because they are not on the site."""

from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform

ROOT = Path(__file__).parents[2]


class RepositoryFiles(SphinxPostTransform):
    """A download link to a script or record becomes its path from the top of the repository."""

    default_priority = 4  # before MyST looks for the target

    def run(self, **kwargs):
        """Replace every link to a file or folder outside the site."""
        for kind in (addnodes.pending_xref, addnodes.download_reference):
            for node in list(self.document.findall(kind)):
                target = node.get("reftarget", "").partition("#")[0]
                if not target.startswith(".") and not target.startswith("/"):
                    continue
                page = Path(self.env.doc2path(node.get("refdoc", self.env.docname)))
                file = (page.parent / target).resolve()
                if file.exists() and (HERE not in file.parents or file.is_dir() or file.suffix not in (".md", ".rst")):
                    node.replace_self(self.shown(node, file))

    def shown(self, node, file):
        """The text of the link, with the path behind it where the text does not say it."""
        path = str(file.relative_to(ROOT)) if ROOT in file.parents else file.name
        text = node.astext()
        parts = (
            [nodes.literal(path, path)]
            if text in path
            else [nodes.Text(f"{text} ("), nodes.literal(path, path), nodes.Text(")")]
        )
        return nodes.inline("", "", *parts)


HERE = ROOT / "docs"


def setup(app):
    """Register the transform."""
    app.add_post_transform(RepositoryFiles)
    return {"parallel_read_safe": True}
