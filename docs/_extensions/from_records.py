"""Tables made from records of measurements while the site is built, so that no number is typed by hand.

Use as ````{from-records} NAME````: the function of that name in ``tables.py`` or ``refined_tables.py``
returns Markdown.
"""

from docutils import nodes
from docutils.parsers.rst import Directive

from _extensions import refined_tables, tables


class FromRecords(Directive):
    """Table that a function makes of records."""

    required_arguments = 1

    def run(self):
        """Nodes of the table, and a note which file to look at when the page is out of date."""
        name = self.arguments[0].replace("-", "_")
        text, files = getattr(tables if hasattr(tables, name) else refined_tables, name)()
        environment = self.state.document.settings.env
        for file in files:
            environment.note_dependency(str(file))
        box = nodes.container()
        self.state.nested_parse(text.splitlines(), self.content_offset, box)
        return box.children


def setup(app):
    """Register the directive."""
    app.add_directive("from-records", FromRecords)
    return {"parallel_read_safe": True}
