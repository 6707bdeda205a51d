"""The command line: `fit`, `predict`, `describe`, `report` and `compare`.

commands.py parses and calls. sources.py opens files, tables.py and cells.py make frames of them, units.py and
outlying_values.py look for what most tables get wrong. training.py fits (encoding.py, model.py), fitting.py and
reporting.py say what was found, contenders.py and compare.py run the peers, page.py and drawings.py are the report.
"""
